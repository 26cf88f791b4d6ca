# Integers, strings, arrays, hashes, blocks and methods, as in scripts that rewrite text.
class Account
  attr_reader :total

  def initialize(name)
    @name = name
    @total = 0
  end

  def add(amount)
    @total += amount
    self
  end

  def to_s
    "#{@name}: #{@total}"
  end
end

def fibonacci(number)
  number < 2 ? number : fibonacci(number - 1) + fibonacci(number - 2)
end

words = %w[the quick brown fox jumps over the lazy dog]
counts = Hash.new(0)
ARGV[0].to_i.times do |round|
  lines = (1..400).map { |n| "#{words[n % words.size]},#{n * round},#{words[(n * 7) % words.size].upcase}" }
  lines.each do |line|
    first, number, last = line.split(",")
    counts[first] += number.to_i
    counts[last.downcase] += 1 if line =~ /[aeiou]{1,2}[^aeiou]+,\d*7/
  end
  accounts = words.uniq.to_h { |word| [word, Account.new(word)] }
  400.times { |n| accounts[words[n % words.size]].add(n) }
  fibonacci(15)
  sorted = accounts.values.sort_by { |account| [-account.total, account.to_s] }
  counts[sorted.first.to_s.tr("a-m", "n-z")] += 1
end
puts counts.size
