# SPDX-License-Identifier: Apache-2.0
# find_package(hugealign 1.0): the version of the package that these files are in; a newer one of the same major does.
if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/../version.py")
  set(_hugealign_version "${CMAKE_CURRENT_LIST_DIR}/../version.py") # installed: inside the Python package
else()
  set(_hugealign_version "${CMAKE_CURRENT_LIST_DIR}/../hugealign/version.py") # in a checkout: beside it
endif()
file(STRINGS "${_hugealign_version}" PACKAGE_VERSION REGEX "^__version__ = ")
string(REGEX REPLACE ".*\"(.*)\".*" "\\1" PACKAGE_VERSION "${PACKAGE_VERSION}")
unset(_hugealign_version)
string(REGEX MATCH "^[0-9]+" _hugealign_major "${PACKAGE_VERSION}")
if(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION AND PACKAGE_FIND_VERSION_MAJOR EQUAL _hugealign_major)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION_RANGE # 1.0...1.3 or 1.0...<1.3, CMake 3.19
     AND (PACKAGE_VERSION VERSION_GREATER PACKAGE_FIND_VERSION_MAX
          OR (PACKAGE_FIND_VERSION_RANGE_MAX STREQUAL EXCLUDE AND PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION_MAX)))
    set(PACKAGE_VERSION_COMPATIBLE FALSE)
  endif()
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
unset(_hugealign_major)
