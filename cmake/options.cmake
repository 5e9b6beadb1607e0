# Warnings, sanitizers and floating-point rules, as one interface target that every layer links.
add_library(quire_options INTERFACE)
target_include_directories(quire_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(quire_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual
  # Bit-identical answers need the compiler to keep the arithmetic as written: no fused
  # multiply-add unless the source says fma, no re-association.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12 uses its own deprecated get_temporary_buffer in stable_sort.
  target_compile_options(quire_options INTERFACE -Wno-deprecated-declarations)
endif()
if(QUIRE_SANITIZE)
  target_compile_options(quire_options INTERFACE
    -fsanitize=${QUIRE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(quire_options INTERFACE -fsanitize=${QUIRE_SANITIZE})
endif()
if(QUIRE_FUZZ)
  target_compile_options(quire_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_compile_definitions(quire_options INTERFACE QUIRE_VERSION="${PROJECT_VERSION}")
