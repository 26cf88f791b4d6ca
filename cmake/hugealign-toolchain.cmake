# A CMake toolchain file:  cmake --toolchain "$(hugealign path --toolchain)" …
#
# It leaves the choice of the compiler alone (CC, CXX, -DCMAKE_C_COMPILER) and leads the compiler to the linker
# shims with -B, on link lines only, so that compile commands and compiler caches see no difference.  To have it
# beside another toolchain file, include this one from there, or give it as
# -DCMAKE_PROJECT_TOP_LEVEL_INCLUDES=… (CMake 3.24).
#
# A directory property, not CMAKE_EXE_LINKER_FLAGS_INIT: a user's -DCMAKE_EXE_LINKER_FLAGS=… would replace that.

include_guard(DIRECTORY)

if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/../libexec/ld")
  set(_hugealign_package "${CMAKE_CURRENT_LIST_DIR}/..") # installed: inside the Python package
else()
  set(_hugealign_package "${CMAKE_CURRENT_LIST_DIR}/../hugealign") # in a checkout: beside it
endif()
get_filename_component(_hugealign_package "${_hugealign_package}" REALPATH)
add_link_options("-B${_hugealign_package}/libexec/")
unset(_hugealign_package)
