# `cmake --install`: the binary, its completions and what a person wants to read.
include(GNUInstallDirs)
install(TARGETS quire RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
