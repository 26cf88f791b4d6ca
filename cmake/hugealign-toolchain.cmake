# SPDX-License-Identifier: Apache-2.0
# A CMake toolchain file:  cmake --toolchain "$(hugealign path toolchain)" …
#
# It leaves the choice of the compiler alone (CC, CXX, -DCMAKE_C_COMPILER) and leads the compiler to the linker
# shims with -B, on link lines only, so compile commands and compiler caches see no difference.  To use it with
# another toolchain file, include this one from there, or give it as
# -DCMAKE_PROJECT_TOP_LEVEL_INCLUDES=… (CMake 3.24).
#
# With -DHUGEALIGN_PROFILE=server.order, or that variable in the environment of the first cmake, all targets follow
# that order (hugealign order): they are compiled with -ffunction-sections, and linked again when the order changes.
#
# Directory properties, not CMAKE_EXE_LINKER_FLAGS_INIT: a user's -DCMAKE_EXE_LINKER_FLAGS=… would replace that.

include_guard(DIRECTORY)

include("${CMAKE_CURRENT_LIST_DIR}/hugealign-profile.cmake")
_hugealign_shims(_hugealign_option)
add_link_options("$<$<NOT:$<LINK_LANG_AND_ID:Fortran,LLVMFlang>>:${_hugealign_option}>") # LLVM's flang knows no -B
unset(_hugealign_option)

set(HUGEALIGN_PROFILE "$ENV{HUGEALIGN_PROFILE}" CACHE FILEPATH "An order of hugealign order: hot functions first")
get_property(_hugealign_trying GLOBAL PROPERTY IN_TRY_COMPILE) # which needs no order
if(HUGEALIGN_PROFILE AND NOT _hugealign_trying)
  _hugealign_order("${HUGEALIGN_PROFILE}" _hugealign_options _hugealign_words)
  foreach(_hugealign_language IN ITEMS C CXX Fortran OBJC OBJCXX)
    list(PREPEND CMAKE_${_hugealign_language}_LINKER_LAUNCHER ${_hugealign_words})
  endforeach()
  add_compile_options("${_hugealign_options}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${HUGEALIGN_PROFILE}")
  unset(_hugealign_language)
  unset(_hugealign_options)
  unset(_hugealign_words)
endif()
unset(_hugealign_trying)
