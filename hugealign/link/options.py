"""What each option of the linkers does to a link that is laid out: the one table, for `command` and for sh/shim.sh.

The options are those of GNU ld 2.40 to 2.47, gold 1.16, lld 14 to 23, mold 1.10 to 3.0 and wild 0.10, by their names
without dashes.  With a ``=`` behind it, an option takes the next word as its argument if none is joined to it.  Where
the linkers differ about that, it is written without: its argument may then be mistaken for an input, which matters only
if an object file of that name exists, but never hides an option.

An option that is not here is unknown, and gets the plain link.
"""

#: Options that `command` itself reads.
_READ = """
    Map= T= script= dT= default-script= m= z= o= output= l= library= L= library-path= dependency-file= b= format=
    oformat= Ttext-segment= image-base= static Bstatic dn non_shared Bdynamic dy call_shared pie pic-executable shared
    Bshareable no-pie nopie no-pic-executable plugin-opt=
    """

#: Options that do not affect the layout.
_HARMLESS = """
    ( ) A= architecture= accept-unknown-input-arch add-needed allow-multiple-definition allow-shlib-undefined
    android-memtag-heap android-memtag-mode= android-memtag-note android-memtag-stack apply-dynamic-relocs as-needed
    assert= audit= auxiliary= be8 Bgroup Bno-symbolic branch-to-branch Bsymbolic Bsymbolic-functions Bsymbolic-non-weak
    Bsymbolic-non-weak-functions build-id build-id-chunk-size-for-treehash= build-id-min-file-size-for-treehash= a=
    check-sections color-diagnostics compress-debug-sections= compress-sections= copy-dt-needed-entries cref
    ctf-share-types= ctf-variables ctors-in-init-array d dc dp debug-names default-imported-symver default-symver
    define-common defsym= demangle depaudit= dependent-libraries detach detect-odr-violations disable-linker-version
    disable-multiple-abs-defs disable-new-dtags discard-all discard-locals discard-none discard-sframe dynamic-linker=
    dynamic-list= dynamic-list-cpp-new dynamic-list-cpp-typeinfo dynamic-list-data E EL e= eh-frame-hdr emit-relocs
    emit-stub-syms enable-linker-version enable-new-dtags end-group end-lib entry= error-execstack
    error-handling-script= error-limit= error-rwx-segments error-unresolved-symbols exclude-libs= execute-only
    export-dynamic export-dynamic-symbol= export-dynamic-symbol-list= F= f= fat-lto-objects fatal-warnings filter=
    fini= fix-arm1176 fix-cortex-a53-835769 fix-cortex-a53-843419 fix-cortex-a8 fix-v4bx fix-v4bx-interworking flto
    flto-partition force-group-allocation fork fortran-common fuse-ld= g gc-keep-exported gc-sections gdb-index
    gnu-tls-tag gnu2-tls-tag gnu-unique h= hash-bucket-empty-fraction= hash-size= hash-style= I= icf icf-iterations=
    ignore-data-address-equality ignore-function-address-equality ignore-unresolved-symbol= init= just-symbols=
    keep-files-mapped keep-unique= ld-generated-unwind-info link-mapless load-pass-plugin= long-plt lto lto-aa-pipeline
    lto-basic-block-address-map lto-basic-block-sections lto-cs-profile-file lto-cs-profile-generate
    lto-debug-pass-manager lto-known-safe-vtables lto-legacy-pass-manager lto-newpm-passes lto-obj-path lto-partitions
    lto-pgo-warn-mismatch lto-sample-profile lto-unique-basic-block-section-names
    lto-validate-all-vtables-have-type-infos lto-whole-program-visibility M map-whole-files max-cache-size=
    merge-exidx-entries mllvm= mmap-output-file no-accept-unknown-input-arch no-add-needed no-allow-multiple-definition
    no-allow-shlib-undefined no-apply-dynamic-relocs no-as-needed no-branch-to-branch no-build-id
    no-call-graph-profile-sort no-check-sections no-color-diagnostics no-copy-dt-needed-entries no-cref
    no-ctf-variables no-ctors-in-init-array no-debug-names no-define-common no-demangle no-dependent-libraries
    no-detach no-detect-odr-violations no-dynamic-linker no-eh-frame-hdr no-emit-stub-syms no-enum-size-warning
    no-error-execstack no-error-rwx-segments no-execute-only no-export-dynamic no-fat-lto-objects no-fatal-warnings
    no-fix-arm1176 no-fix-cortex-a53-835769 no-fix-cortex-a53-843419 no-fix-cortex-a8 no-fork no-fortran-common
    no-gc-sections no-gdb-index no-gnu-tls-tag no-gnu2-tls-tag no-gnu-unique no-icf no-incremental no-keep-files-mapped
    no-keep-memory no-ld-generated-unwind-info no-link-mapless no-long-plt no-lto-basic-block-address-map
    no-lto-legacy-pass-manager no-lto-pgo-warn-mismatch no-lto-unique-basic-block-section-names
    no-lto-validate-all-vtables-have-type-infos no-lto-whole-program-visibility no-map-whole-files
    no-merge-exidx-entries no-mmap-output-file no-nmagic no-omagic no-optimize-bb-jumps no-pcrel-optimize
    no-pipeline-knowledge no-plt-localentry no-plt-static-chain no-plt-thread-safe no-posix-fallocate no-power10-stubs
    no-print-gc-sections no-print-icf-sections no-print-map-discarded no-print-map-locals no-quick-exit no-relax
    no-relax-gp no-separate-debug-file no-stats no-strip-discarded no-stub-group-multi no-text-reorder no-threads
    no-tls-get-addr-optimize no-tls-optimize no-toc-optimize no-toc-sort no-undefined no-undefined-version
    no-use-android-relr-tags no-warn-backrefs no-warn-common no-warn-constructors no-warn-drop-version
    no-warn-execstack no-warn-ifunc-textrel no-warn-mismatch no-warn-rwx-segments no-warn-search-mismatch
    no-warn-shared-textrel no-warn-symbol-ordering no-warnings no-wchar-size-warning no-whole-archive no-xosegment
    noinhibit-exec nostdlib O= opt-remarks-filename= opt-remarks-format= opt-remarks-hotness-threshold=
    opt-remarks-passes= opt-remarks-with-hotness optimize= optimize-bb-jumps orphan-handling= P= p pack-dyn-relocs=
    package-metadata pcrel-optimize perf pic-veneer plt-align plt-localentry plt-static-chain plt-thread-safe plugin=
    plugin-save-temps pop-state posix-fallocate power10-stubs preread-archive-symbols print-archive-stats
    print-gc-sections print-icf-sections print-map print-map-discarded print-map-locals print-memory-usage
    print-symbol-counts= print-symbol-order push-state Qy q qmagic quick-exit R= reduce-memory-overheads relax relax-gp
    remap-inputs= remap-inputs-file= repro reproduce= require-defined= retain-symbols-file= rpath= rpath-link=
    rsp-quoting= S s save-temps secure-plt soname= sort-common sort-section= spare-dynamic-tags=
    split-stack-adjust-size= start-group start-lib stats strip-all strip-debug strip-debug-gdb strip-debug-non-line
    strip-discarded strip-lto-sections stub-group-multi stub-group-size= sysroot= t target1-abs target1-rel target2=
    text-reorder thinlto-cache-dir thinlto-cache-policy thinlto-distributor thinlto-distributor-arg
    thinlto-emit-imports-files thinlto-emit-index-files thinlto-jobs thinlto-object-suffix-replace
    thinlto-prefix-replace thinlto-remote-compiler thinlto-remote-compiler-arg thinlto-remote-compiler-prepend-arg
    thread-count= thread-count-final= thread-count-initial= thread-count-middle= threads time-trace time-trace-file
    time-trace-granularity= tls-get-addr-optimize tls-optimize toc-optimize toc-sort trace trace-symbol= u= undefined=
    undefined-glob= undefined-version unresolved-symbols= use-android-relr-tags V v version-exports-section=
    version-script= vs-diagnostics verbose-bp-section-orderer w warn-alternate-em warn-backrefs warn-backrefs-exclude
    warn-common warn-constructors warn-drop-version warn-execstack warn-execstack-objects warn-ifunc-textrel
    warn-multiple-gp warn-once warn-rwx-segments warn-search-mismatch warn-section-align warn-shared-textrel
    warn-symbol-ordering warn-textrel warn-unresolved-symbols weak-unresolved-symbols whole-archive why-extract
    why-live wrap= X x Y= y=
    """

#: Options that give an order of the user's own.
_ORDERS = """
    bp-compression-sort bp-compression-sort-section bp-compression-sort-startup-functions bp-startup-sort
    call-graph-ordering-file= call-graph-profile-sort irpgo-profile reverse-sections shuffle-sections
    symbol-ordering-file=
    """

#: Options that place sections, segments or pages.
_PLACES = """
    Tbss= Tdata= Tldata-segment= Trodata-segment= Ttext= enable-non-contiguous-regions
    enable-non-contiguous-regions-warnings incremental incremental-base= incremental-changed incremental-full
    incremental-patch= incremental-startup-unchanged incremental-unchanged incremental-unknown incremental-update N n
    nmagic no-rosegment omagic physical-image-base= randomize-section-padding rosegment rosegment-gap= section-order=
    section-ordering-file= section-start= spare-program-headers split-by-file split-by-reloc unique xosegment
    zero-to-bss
    """

#: Options among them that request what these linkers do in each laid-out link anyway, so are harmless there.
REDUNDANT = {"rosegment": ("lld", "mold"), "no-rosegment": ("bfd", "gold")}

#: Options that make no program or library, or more than one file, or print what our layout changes.
_OTHER = """
    C= EB G c= chroot= cmse-implib debug= directory= dll-verbose embedded-relocs force-exe-suffix gpsize in-implib=
    lto-emit-asm lto-emit-llvm mri-script= out-implib= separate-debug-file thinlto-index-only thinlto-single-module
    traditional-format verbose
    """

#: Options of a relocatable link.
_RELOCATABLE = "i r relocatable task-link= Ur"

#: Options with which the linker does not link.
_NOTHING = "help print-output-format print-sysroot run target-help version"

#: The keywords of ``-z``, likewise.
_Z_HARMLESS = """
    bti-report buildd call-nop cet-report combreloc common common-page-size copyreloc dead-reloc-in-nonalloc defs
    dynamic-undefined-weak execstack execstack-if-needed execute-only-report force-bti force-ibt gcs gcs-report
    gcs-report-dynamic global globalaudit hazardplt ibt ibtplt ifunc-noplt indirect-extern-access initfirst interpose
    isa-level-report keep-data-section-prefix keep-text-section-prefix lam-report lam-u48 lam-u48-report lam-u57
    lam-u57-report lazy loadfltr mark-plt max-page-size memory-seal muldefs nobtcfi nocombreloc nocommon nocopyreloc
    nodefaultlib nodefs nodelete nodlopen nodump nodynamic-undefined-weak noexecstack noextern-protected-data nognustack
    noindirect-extern-access nokeep-data-section-prefix nokeep-text-section-prefix nolrodata-after-bss nomark-plt
    nomemory-seal nopack-relative-relocs noreloc-overflow norelro norewrite-endbr noseparate-code nostart-stop-gc notext
    notext-unlikely-segment nounique nounique-symbol now origin pac-plt pack-relative-relocs pauth-report rel rela relro
    report-relative-reloc retpolineplt rewrite-endbr rodynamic sectionheader separate-code separate-loadable-segments
    shstk stack-size start-stop-gc start-stop-visibility start_stop_visibility text textoff undefs unique unique-symbol
    wxneeded zicfilp zicfilp-report zicfiss zicfiss-report
    """
_Z_PLACES = "lrodata-after-bss text-unlikely-segment"
_Z_NO_SECTIONS = "nosectionheader"

#: What ``-plugin-opt`` requests in the words of LLVM: lld and LLVMgold.so know it by these.
_PLUGIN_OTHER = ("emit-asm", "emit-llvm", "thinlto-index-only", "disable-output")

PLACES = "it places sections, segments or pages"
OTHER = "it makes something else than a program or a library, or prints what the layout changes"
NO_SECTIONS = "the link is checked by section headers; remove them afterwards (llvm-objcopy --strip-sections)"
RELOCATABLE = "a relocatable link"
NOTHING = "nothing is linked"
UNKNOWN = "hugealign does not know it"

#: Options that compiler drivers write with the argument in the next word.  sh/shim.sh knows only these (`make tables`):
#: it takes the argument of any other option for an input, does not find that file, and leaves the link to Python.
NEXT_IS_ARGUMENT = "-m -z -L -T -e -h -o -soname -dynamic-linker -plugin -rpath -rpath-link".split()
#: sh patterns for the options of a usual link, which starts before Python has loaded if it has EARLY bytes of inputs or
#: more.  All are harmless; with any other, the link might be left alone, or the linker might print on stdout.
USUAL = """
    -melf_x86_64 -znow -zrelro -znorelro -zdefs -zorigin -znoexecstack -ztext -znotext -zseparate-code -zstack-size=*
    -zpack-relative-relocs -pie -shared -static -e* -h* -o* -soname* -dynamic-linker* -plugin/* -plugin-opt=/*
    -plugin-opt=-fresolution=* -plugin-opt=-pass-through=* -rpath* -l* -L?* -O* -s -S -x -E
    --build-id* --eh-frame-hdr --hash-style=* --sysroot=* --as-needed --no-as-needed --push-state --pop-state
    --start-group --end-group '-(' '-)' --gc-sections --export-dynamic -export-dynamic --no-undefined
    --version-script=* --enable-new-dtags --disable-new-dtags --whole-archive --no-whole-archive -Bstatic -Bdynamic
    """.split()
UNUSUAL = ["-o-", "-o/dev/*", "-o/proc/*"]
EARLY = 4 << 20

_ORDER_OPTIONS = frozenset(_ORDERS.split())
#: The table: words, and why an option among them keeps a link from being laid out, empty if it does not.  Sets of words
#: as they are written: a link has no time to take them apart.
_EFFECTS = (
    (frozenset(_READ.split()), ""),
    (frozenset(_HARMLESS.split()), ""),
    (_ORDER_OPTIONS, ""),
    (frozenset(_PLACES.split()), PLACES),
    (frozenset(_OTHER.split()), OTHER),
    (frozenset(_RELOCATABLE.split()), RELOCATABLE),
    (frozenset(_NOTHING.split()), NOTHING),
)
Z_EFFECTS = (
    (frozenset(_Z_HARMLESS.split()), ""),
    (frozenset(_Z_PLACES.split()), PLACES),
    (frozenset(_Z_NO_SECTIONS.split()), NO_SECTIONS),
)
#: Names that are written together with their value.
_PREFIXES, _Z_PREFIXES = ("lto-O", "lto-CGO"), ("x86-64-",)


def effect(name: str) -> str:
    """Return why the option *name*, without dashes, keeps a link from being laid out; empty if it does not."""
    with_argument = f"{name}="
    for words, reason in _EFFECTS:
        if name in words or with_argument in words:
            return reason
    return "" if name.startswith(_PREFIXES) else UNKNOWN


def takes_argument(name: str) -> bool:
    """Return whether the option *name* takes the next word if no argument is joined to it."""
    with_argument = f"{name}="
    return any(with_argument in words for words, _ in _EFFECTS)


def gives_order(name: str) -> bool:
    """Return whether the option *name* gives an order of the user's own."""
    return name in _ORDER_OPTIONS or f"{name}=" in _ORDER_OPTIONS


def z_effect(keyword: str) -> str:
    """Return why a *keyword* of ``-z``, with its value, keeps a link from being laid out; empty if it does not."""
    name = keyword.partition("=")[0]
    for words, reason in Z_EFFECTS:
        if name in words:
            return reason
    return "" if name.startswith(_Z_PREFIXES) else UNKNOWN


def plugin_effect(option: str) -> str:
    """Return why an *option* of ``-plugin-opt`` keeps a link from being laid out; empty if it does not."""
    return OTHER if option.lstrip("-").partition("=")[0] in _PLUGIN_OTHER else ""
