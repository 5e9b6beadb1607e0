# Every dependency comes from Debian (tools/packages.txt lists them, with the reason for each) or
# crates.io (rust/quire_bridge/Cargo.toml).
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(tl-expected REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
if(QUIRE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  add_library(quire_rapidcheck INTERFACE)
  target_link_libraries(quire_rapidcheck INTERFACE ${RAPIDCHECK_LIBRARY})
endif()
