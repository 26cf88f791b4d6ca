; A name that several source files have counts in the file that is named, however much of its path either side gives.
; RUN: split-file %s %t
; RUN: cat %t/a.ll %t/code.ll > %t/one.ll
; RUN: cat %t/home-src-a.ll %t/code.ll > %t/two.ll
; RUN: cat %t/b.ll %t/code.ll > %t/three.ll
; RUN: env HUGEALIGN_PROFILE=%t/order %hot %t/one.ll | FileCheck %s --implicit-check-not='section "'
; RUN: env HUGEALIGN_PROFILE=%t/order %hot %t/two.ll | FileCheck %s --implicit-check-not='section "'
; RUN: env HUGEALIGN_PROFILE=%t/order %hot %t/three.ll | FileCheck %s --check-prefix=B --implicit-check-not='section "'

; CHECK: @helper() section ".text.hot.helper"
; CHECK: @helper2() {
; CHECK: @other() {
; CHECK: @both() section
; B: @helper() {
; B: @helper2() {
; B: @other() section ".text.hot.other"
; B: @both() section

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
