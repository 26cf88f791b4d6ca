# SPDX-License-Identifier: Apache-2.0
# find_package(hugealign) with  -Dhugealign_DIR="$(hugealign path cmake)":
#
#   hugealign_verify(target [STRICT] [WINDOWS number] [ARGS option...])
#
# runs `hugealign verify` on the file that *target* links: after each link, which then fails if the text is not in whole
# windows, and as a ctest test named hugealign.<target>, which checks the file as it is when the tests run, if the
# project has enable_testing().
# With STRICT, warnings fail too; with WINDOWS, so does text with fewer whole windows, as when code has moved into a
# library; ARGS are further options of `hugealign verify`.  It does not change how the target is linked: that is the
# toolchain file's business, or the compiler's.
#
#   hugealign_profile(order target...)
#
# compiles the targets with -ffunction-sections and has hugealign link those that are linked; it places the functions of
# *order* first.  Name a program's static libraries here too: they are targets of their own.

# The command that belongs to these files comes first: in a checkout, of `make install`, in a wheel's environment, in
# pip's --target.
find_program(
  HUGEALIGN_EXECUTABLE hugealign
  HINTS "${CMAKE_CURRENT_LIST_DIR}/../bin" "${CMAKE_CURRENT_LIST_DIR}/../../../bin"
        "${CMAKE_CURRENT_LIST_DIR}/../../../../../bin"
        "${CMAKE_CURRENT_LIST_DIR}/../../bin"
  NO_CMAKE_FIND_ROOT_PATH # it runs here, even if the target does not
  DOC "The hugealign command")
mark_as_advanced(HUGEALIGN_EXECUTABLE)
if(NOT HUGEALIGN_EXECUTABLE)
  set(${CMAKE_FIND_PACKAGE_NAME}_FOUND FALSE)
  set(${CMAKE_FIND_PACKAGE_NAME}_NOT_FOUND_MESSAGE "The hugealign command is neither beside its CMake files nor on PATH.")
  return()
endif()

include("${CMAKE_CURRENT_LIST_DIR}/hugealign-profile.cmake")

function(hugealign_profile order)
  get_filename_component(order "${order}" ABSOLUTE)
  _hugealign_shims(shims)
  _hugealign_order("${order}" options launcher)
  if(NOT ARGN)
    message(FATAL_ERROR "hugealign_profile: no target after ${order}")
  endif()
  foreach(target IN LISTS ARGN)
    if(NOT TARGET "${target}")
      message(FATAL_ERROR "hugealign_profile: ${target} is not a target")
    endif()
    target_compile_options("${target}" PRIVATE "${options}")
    get_target_property(type "${target}" TYPE)
    if(type MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$")
      target_link_options("${target}" PRIVATE "$<$<NOT:$<LINK_LANG_AND_ID:Fortran,LLVMFlang>>:${shims}>")
      foreach(language IN ITEMS C CXX Fortran OBJC OBJCXX)
        # In front of a launcher of the user's own, in the place of an earlier order: the last that env sets counts.
        get_property(own TARGET "${target}" PROPERTY ${language}_LINKER_LAUNCHER)
        string(REGEX REPLACE "(^|;)[^;]*;-E;env;HUGEALIGN_PROFILE=[^;]*;_HUGEALIGN_ORDER=[^;]*" "" own ";${own}")
        string(REGEX REPLACE "^;" "" own "${own}")
        set_property(TARGET "${target}" PROPERTY ${language}_LINKER_LAUNCHER "${launcher}" ${own})
      endforeach()
    endif()
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${order}")
endfunction()

function(hugealign_verify target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STRICT" "WINDOWS" "ARGS")
  if(NOT TARGET "${target}")
    message(FATAL_ERROR "hugealign_verify: ${target} is not a target")
  endif()
  get_target_property(type "${target}" TYPE)
  if(NOT type MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$")
    message(FATAL_ERROR "hugealign_verify: ${target} is not linked (${type})")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "hugealign_verify: unknown arguments: ${arg_UNPARSED_ARGUMENTS}; options stand behind ARGS")
  endif()
  set(words verify --quiet)
  if(arg_STRICT)
    list(APPEND words --fail-on=warning)
  endif()
  if(DEFINED arg_WINDOWS)
    list(APPEND words "--min-windows=${arg_WINDOWS}")
  endif()
  list(APPEND words ${arg_ARGS} -- "$<TARGET_FILE:${target}>")
  add_custom_command(
    TARGET "${target}"
    POST_BUILD
    COMMAND "${HUGEALIGN_EXECUTABLE}" ${words}
    VERBATIM)
  add_test(NAME "hugealign.${target}" COMMAND "${HUGEALIGN_EXECUTABLE}" ${words})
endfunction()
