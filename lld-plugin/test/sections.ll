; Only the hot functions get sections, except those that must stay where they are.
; RUN: env HUGEALIGN_PROFILE=%S/Inputs/hot.order %hot %s | FileCheck %s --implicit-check-not='section "'
; RUN: %hot %s | FileCheck %s --check-prefix=WITHOUT

target triple = "x86_64-pc-linux-gnu"
$shared = comdat any

; A function is hot by the name of its alias too.
@other_name = alias void (), void ()* @by_alias

@chosen = ifunc void (), void ()* ()* @resolver

; CHECK: define void @hot() section ".text.hot.hot" {
define void @hot() {
  ret void
}
; CHECK: define void @by_alias() section ".text.hot.other_name" {
define void @by_alias() {
  ret void
}
; CHECK: define void @fill() {
define void @fill() {
  ret void
}
; CHECK: define void @cold() {
define void @cold() {
  ret void
}
; CHECK: define void @unlisted() {
define void @unlisted() {
  ret void
}
; CHECK: define void @placed() section ".mine" {
define void @placed() section ".mine" {
  ret void
}
; CHECK: define void @naked()
; CHECK-SAME: {{#[0-9]+}} {
define void @naked() naked {
  ret void
}
; CHECK: @resolver() {
define void ()* @resolver() {
  ret void ()* @hot
}
; CHECK: define available_externally void @inlined() {
define available_externally void @inlined() {
  ret void
}
; CHECK: define linkonce_odr void @shared() section ".text.hot.shared" comdat {
define linkonce_odr void @shared() comdat {
  ret void
}
; CHECK: declare void @declared()
declare void @declared()

; WITHOUT-NOT: section ".text
