; Names as an order file escapes them; what ThinLTO adds to a name is not part of it, on either side.
; RUN: split-file %s %t
; RUN: env HUGEALIGN_PROFILE=%t/order %hot %t/code.ll | FileCheck %s --implicit-check-not='section "'

; CHECK: @"a\\b"() section ".text.hot.a\\b"
; CHECK: @"tab\09here"() section ".text.hot.tab\09here"
; CHECK: @"#hash"() section
; CHECK: @"@401136"() section
; CHECK: @"end "() section
; CHECK: @"caf\C3\A9"() section
; CHECK: @p() section ".text.hot.p"
; CHECK: @q.llvm.456() section ".text.hot.q"
; CHECK: @r.llvm.x() {

;--- order
# hugealign.order/1
a\\b
tab\there
\x23hash
\x40401136
end\x20
caf\xc3\xa9
p.llvm.123
q
;--- code.ll
target triple = "x86_64-pc-linux-gnu"

define void @"a\\b"() {
  ret void
}
define void @"tab\09here"() {
  ret void
}
define void @"#hash"() {
  ret void
}
define void @"@401136"() {
  ret void
}
define void @"end "() {
  ret void
}
define void @"caf\C3\A9"() {
  ret void
}
define void @p() {
  ret void
}
define hidden void @q.llvm.456() {
  ret void
}
define void @r.llvm.x() {
  ret void
}
