# SPDX-License-Identifier: Apache-2.0
# What the toolchain file and the package share: where the shims are, and how a link gets an order.

# _hugealign_shims(variable): set *variable* to the option that leads a compiler to the linker shims.
function(_hugealign_shims variable)
  set(package "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..") # installed: inside the Python package
  if(NOT EXISTS "${package}/libexec/ld")
    string(APPEND package "/hugealign") # in a checkout: beside it
  endif()
  get_filename_component(package "${package}" REALPATH)
  set(${variable} "-B${package}/libexec/" PARENT_SCOPE)
endfunction()

# _hugealign_order(order options launcher): set *options* to what a compiler needs for a link in that *order*, and
# *launcher* to the words in front of the link.
#
# The checksum means nothing to the link.  It makes the command change with the order, so that generators link again.
function(_hugealign_order order options launcher)
  if(CMAKE_VERSION VERSION_LESS 3.21)
    message(FATAL_ERROR "hugealign: an order needs CMAKE_<LANG>_LINKER_LAUNCHER, of CMake 3.21; or set HUGEALIGN_PROFILE "
                        "in the environment of the build")
  endif()
  if(NOT EXISTS "${order}" OR IS_DIRECTORY "${order}" OR order MATCHES ";")
    message(FATAL_ERROR "hugealign: ${order}: no such order; make it: hugealign order PROFILE -b PROGRAM -o FILE")
  endif()
  file(SHA256 "${order}" sum)
  # Assemblers take no such option, and clang warns about it; LLVM's flang has none before 23.
  set(fortran "$<$<COMPILE_LANGUAGE:Fortran>:$<$<NOT:$<Fortran_COMPILER_ID:LLVMFlang>>:-ffunction-sections>>")
  set(${options} "$<$<COMPILE_LANGUAGE:C,CXX,OBJC,OBJCXX>:-ffunction-sections>" "${fortran}" PARENT_SCOPE)
  set(${launcher} "${CMAKE_COMMAND}" -E env "HUGEALIGN_PROFILE=${order}" "_HUGEALIGN_ORDER=${sum}" PARENT_SCOPE)
endfunction()
