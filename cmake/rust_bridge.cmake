# quire_bridge: the one Rust library, built by cargo with the locked crates. Every preset shares one
# build, since nothing in it depends on the C++ flags.
# The one in PATH is the one that tools/setup has checked; the folders are for where PATH has none.
find_program(CARGO_PROGRAM cargo PATHS $ENV{CARGO_HOME}/bin $ENV{HOME}/.cargo/bin REQUIRED)

set(bridge_source ${PROJECT_SOURCE_DIR}/rust/quire_bridge)
set(bridge_target ${PROJECT_SOURCE_DIR}/rust/target)
set(bridge_library ${bridge_target}/release/${CMAKE_STATIC_LIBRARY_PREFIX}quire_bridge${CMAKE_STATIC_LIBRARY_SUFFIX})
file(GLOB_RECURSE bridge_files CONFIGURE_DEPENDS ${bridge_source}/src/*.rs)

# cargo leaves an unchanged library alone; touching it tells the build that it is up to date.
add_custom_command(
  OUTPUT ${bridge_library}
  COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${bridge_target}
          ${CARGO_PROGRAM} build --release --locked --quiet
  COMMAND ${CMAKE_COMMAND} -E touch ${bridge_library}
  WORKING_DIRECTORY ${bridge_source}
  DEPENDS ${bridge_files} ${bridge_source}/Cargo.toml ${bridge_source}/Cargo.lock
  COMMENT "Building the Rust library (minutes the first time)"
  USES_TERMINAL VERBATIM)
add_custom_target(quire_bridge_build DEPENDS ${bridge_library})

add_library(quire_bridge STATIC IMPORTED GLOBAL)
set_target_properties(quire_bridge PROPERTIES
  IMPORTED_LOCATION ${bridge_library}
  INTERFACE_INCLUDE_DIRECTORIES ${bridge_source}/include
  INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
add_dependencies(quire_bridge quire_bridge_build)
