// SIMD by intrinsics: shuffles, saturation, comparison masks; constants in .rodata aligned to 16.
//# Variants: pie+O2 static no-pie
//# Output: 255 0 36 ffff
#include <emmintrin.h>
#include <stdio.h>
int main(void) {
    __m128i bytes = _mm_set1_epi8((char)200), saturated = _mm_adds_epu8(bytes, bytes),
            zero = _mm_setzero_si128();
    __m128i sums = _mm_sad_epu8(_mm_set_epi8(8, 7, 6, 5, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1), zero);
    int below = _mm_cvtsi128_si32(_mm_subs_epu8(zero, bytes));
    printf("%d %d %d %x\n", _mm_cvtsi128_si32(saturated) & 255, below, _mm_cvtsi128_si32(sums),
           (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, bytes)));
    return 0;
}
