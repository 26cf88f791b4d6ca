; `.text.hot.hot` is no section name for Mach-O, another matter for COFF, and to BPF's loaders a kind of program.
; RUN: env HUGEALIGN_PROFILE=%S/Inputs/hot.order %hot -mtriple=x86_64-apple-macosx %s | FileCheck %s
; RUN: env HUGEALIGN_PROFILE=%S/Inputs/hot.order %hot -mtriple=x86_64-pc-windows-msvc %s | FileCheck %s
; RUN: env HUGEALIGN_PROFILE=%S/Inputs/hot.order %hot -mtriple=bpf %s | FileCheck %s
; RUN: env HUGEALIGN_PROFILE=%S/Inputs/hot.order %hot -mtriple=riscv64-linux-gnu %s | FileCheck %s --check-prefix=ELF

; CHECK: define void @hot() {
; ELF: define void @hot() section
define void @hot() {
  ret void
}
