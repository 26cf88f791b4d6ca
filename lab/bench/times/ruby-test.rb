# Floating point, structures, symbols, exceptions, lazy sequences, formats and pattern matching.
Body = Struct.new(:x, :y, :z, :vx, :vy, :vz, :mass)

def advance(bodies, step)
  bodies.combination(2) do |one, other|
    dx, dy, dz = one.x - other.x, one.y - other.y, one.z - other.z
    distance = Math.sqrt(dx * dx + dy * dy + dz * dz)
    force = step / (distance**3)
    one.vx -= dx * other.mass * force
    one.vy -= dy * other.mass * force
    other.vz += dz * one.mass * force
  end
  bodies.each { |body| body.x += step * body.vx; body.y += step * body.vy; body.z += step * body.vz }
end

def shape(value)
  case value
  in { kind: :circle, radius: Numeric => radius } then 3.14159 * radius * radius
  in { kind: :box, sides: [width, height] } then width * height
  in [first, *] then first
  in nil then raise ArgumentError, "nothing"
  else 0
  end
end

failed = 0
text = +""
ARGV[0].to_i.times do |round|
  bodies = Array.new(5) { |n| Body.new(n + 1.0, n * 0.5, 2.0 - n, 0.01 * n, 0.0, 0.02, 1.0 / (n + 1)) }
  60.times { advance(bodies, 0.001) }
  shapes = [{ kind: :circle, radius: round }, { kind: :box, sides: [round, 2] }, [round], nil, :other]
  60.times do |n|
    shape(shapes[n % shapes.size])
  rescue ArgumentError => error
    failed += error.message.size
  end
  primes = (2..Float::INFINITY).lazy.select { |n| (2..Math.sqrt(n)).none? { |d| (n % d).zero? } }.first(60)
  text << format("%08.3f %-6s %x|", bodies.sum(&:x), primes.last, primes.sum)
  text = text.reverse.gsub(/\d{3}/) { |digits| digits.to_sym.to_proc ? digits.succ : "" }[0, 400]
  big = primes.take(20).inject(:*)
  failed += big.to_s.each_char.map(&:to_i).each_slice(3).max_by(&:sum).first
  failed += catch(:done) { 1000.downto(0) { |n| throw :done, n if (n & 0xff).zero? } }
end
puts text.size, failed
