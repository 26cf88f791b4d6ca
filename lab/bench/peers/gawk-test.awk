# Recursion, mathematics, arrays of arrays, sorting, formats, time and substrings.
function ackermann(m, n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1))
}
function descending(i, first, j, second) { return second - first }
BEGIN {
    print ackermann(2, 60)
    for (n = 1; n <= 4000; n++) {
        wave[n % 30][n] = sin(n) * exp(-n / 500) + sqrt(n) - log(n) + atan2(n, 3)
        name = sprintf("%05d:%-8s:%+.3e:%x", n, substr("abcdefghij", n % 9 + 1), n / 7, n)
        split(name, part, ":")
        key[n] = toupper(part[2]) gensub(/([0-9])([0-9])/, "\\2\\1", "g", part[1])
        bits = xor(bits, lshift(and(n, 255), n % 16))
    }
    asort(key)
    for (row in wave) {
        total = 0
        for (column in wave[row])
            total += wave[row][column]
        sums[row] = total
    }
    PROCINFO["sorted_in"] = "descending"
    for (row in sums)
        if (shown++ < 5)
            printf "%s %.4f %s\n", row, sums[row], strftime("%Y-%m-%d", row * 86400, 1)
    print bits, key[1], key[4000], match(key[7], /[A-F]+/), RSTART, RLENGTH, index(key[3], "J")
    switch (bits % 4) {
    case 0: print "none"; break
    case /[12]/: print "some"; break
    default: print strtonum("0x1f"), tolower("LAST")
    }
}
