# quick_to_compile(TARGET): for test programs, where the compiler takes longer than the tests. What
# runs long in them is the layers below, which stay optimised. The first such program makes the
# precompiled header for all.
function(quick_to_compile target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  get_property(first GLOBAL PROPERTY QUIRE_TEST_HEADERS)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h> <rapidcheck.h>)
    set_property(GLOBAL PROPERTY QUIRE_TEST_HEADERS ${target})
  endif()
  # What ccache needs with precompiled headers.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    # GCC 12 sees sums of strings run past their ends at -O1.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# quire_layer(NAME [DEPS lib...]): the library quire_NAME from every .cc of the folder, and the
# test program quire_NAME_test from every *_test.cc beside them.
function(quire_layer name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|/main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  if(sources)
    add_library(quire_${name} STATIC ${sources})
    target_link_libraries(quire_${name} PUBLIC quire_options fmt::fmt tl::expected Threads::Threads ${ARG_DEPS})
  else()
    add_library(quire_${name} INTERFACE)
    target_link_libraries(quire_${name} INTERFACE quire_options fmt::fmt tl::expected Threads::Threads ${ARG_DEPS})
  endif()

  if(QUIRE_TESTS AND tests)
    add_executable(quire_${name}_test ${tests})
    target_link_libraries(quire_${name}_test PRIVATE quire_${name} quire_rapidcheck GTest::gtest_main)
    target_compile_definitions(quire_${name}_test PRIVATE
      QUIRE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data" QUIRE_MODELS="${PROJECT_SOURCE_DIR}/models")
    quick_to_compile(quire_${name}_test)
    gtest_discover_tests(quire_${name}_test DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}.)
  endif()
endfunction()
