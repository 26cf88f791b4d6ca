; A name that several source files have counts in the file that is named, however much of its path either side gives.
; Its namesakes elsewhere get a section too, whose name no order requests, so they do not take along code around them;
; but not in link-time optimisation, where every function gets one.
; RUN: split-file %s %t
; RUN: cat %t/a.ll %t/code.ll > %t/one.ll
; RUN: cat %t/home-src-a.ll %t/code.ll > %t/two.ll
; RUN: cat %t/b.ll %t/code.ll > %t/three.ll
; RUN: env HUGEALIGN_PROFILE=%t/order %hot %t/one.ll | FileCheck %s --implicit-check-not='section "'
; RUN: env HUGEALIGN_PROFILE=%t/order %hot %t/two.ll | FileCheck %s --implicit-check-not='section "'
; RUN: env HUGEALIGN_PROFILE=%t/order %hot %t/three.ll | FileCheck %s --check-prefix=B --implicit-check-not='section "'
; RUN: cat %t/b.ll %t/code.ll %t/lto.ll > %t/four.ll
; RUN: env HUGEALIGN_PROFILE=%t/order %hot %t/four.ll | FileCheck %s --check-prefix=LTO --implicit-check-not='section "'

; CHECK: @helper() section ".text.hot.helper"
; CHECK: @helper2() section ".text.other.helper2"
; CHECK: @other() section ".text.other.other"
; CHECK: @both() section ".text.hot.both"
; CHECK: @unlisted() {
; B: @helper() section ".text.other.helper"
; B: @helper2() section ".text.other.helper2"
; B: @other() section ".text.hot.other"
; B: @both() section ".text.hot.both"
; B: @unlisted() {
; LTO: @helper() {
; LTO: @helper2() {
; LTO: @other() section ".text.hot.other"
; LTO: @both() section ".text.hot.both"
; LTO: @unlisted() {

;--- order
# hugealign.order/1
helper	file=src/a.c
other	file=b.c
both	file=b.c
both	file=a.c
helper2	file=aa.c
;--- a.ll
source_filename = "a.c"
;--- home-src-a.ll
source_filename = "/home/src/a.c"
;--- b.ll
source_filename = "b.c"
;--- code.ll
target triple = "aarch64-linux-gnu"

define void @helper() {
  ret void
}
define void @helper2() {
  ret void
}
define void @other() {
  ret void
}
define void @both() {
  ret void
}
define void @unlisted() {
  ret void
}
;--- lto.ll
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"EnableSplitLTOUnit", i32 1}
