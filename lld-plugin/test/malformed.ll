; A file that is not an order file: one warning that says why, and nothing is changed.  tests/orders has more of them.
; DEFINE: %{never} = --implicit-check-not=warning --implicit-check-not='section "'
; RUN: rm -rf %t && split-file %s %t
; RUN: mkfifo %t/pipe
; RUN: truncate -s 300M %t/large
; RUN: env HUGEALIGN_PROFILE=%t/good %hot %t/code.ll 2>&1 | FileCheck %s --check-prefix=GOOD --implicit-check-not=warning
; RUN: env HUGEALIGN_PROFILE=%t/empty %hot %t/code.ll 2>&1 | FileCheck %s --check-prefixes=MAGIC,CHECK %{never}
; RUN: env HUGEALIGN_PROFILE=%t/kind %hot %t/code.ll 2>&1 | FileCheck %s --check-prefixes=LINE,CHECK %{never}
; RUN: env HUGEALIGN_PROFILE=%t/pipe %hot %t/code.ll 2>&1 | FileCheck %s --check-prefixes=KIND,CHECK %{never}
; RUN: env HUGEALIGN_PROFILE=%t/large %hot %t/code.ll 2>&1 | FileCheck %s --check-prefixes=KIND,CHECK %{never}
; RUN: env HUGEALIGN_PROFILE=/dev/zero %hot %t/code.ll 2>&1 | FileCheck %s --check-prefixes=KIND,CHECK %{never}
; RUN: env HUGEALIGN_PROFILE=%t/missing %hot %t/code.ll 2>&1 | FileCheck %s --check-prefixes=MISSING,CHECK %{never}

; GOOD: define void @hot() section
; MAGIC: warning: hugealign: {{.*}}: is not an order file: the first line is not `# hugealign.order/1`; no section was changed
; LINE: warning: hugealign: {{.*}}: line 3: not a line of an order file; no section was changed
; KIND: warning: hugealign: {{.*}}: not a file of at most 256 MiB; no section was changed
; MISSING: warning: hugealign: {{.*}}/missing: No such file or directory; no section was changed
; CHECK: define void @hot() {

;--- good
# hugealign.order/1

# a comment, and an address
@401136
hot	samples=3	later=key
;--- empty
;--- kind
# hugealign.order/1
hot
hot	kind=warm
;--- code.ll
target triple = "x86_64-pc-linux-gnu"

define void @hot() {
  ret void
}
