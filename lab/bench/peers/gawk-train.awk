# Counts the words of lines that it makes: fields, regular expressions, arrays, output.
function line(n,    text, i) {
    for (i = 0; i < 12; i++)
        text = text " word" (n * 31 + i * 7) % 211 (i % 3 ? "," : ";")
    return text
}
BEGIN {
    for (n = 0; n < 8000; n++) {
        $0 = line(n)
        gsub(/[,;]/, "")
        if ($3 ~ /^word1[0-9]*$/)
            ones++
        for (i = 1; i <= NF; i++)
            count[$i]++
        longest = length($0) > longest ? length($0) : longest
    }
    for (word in count)
        if (count[word] > most) {
            most = count[word]
            best = word
        }
    print NF, ones, longest, most, best
}
