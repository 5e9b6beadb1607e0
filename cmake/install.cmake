# `cmake --install`: the binary, the completions it writes, and what a person wants to read.
include(GNUInstallDirs)
set(completions ${PROJECT_BINARY_DIR}/completions)
set(completion_files)
foreach(shell_file "bash:quire" "zsh:_quire" "fish:quire.fish")
  string(REPLACE ":" ";" pair ${shell_file})
  list(GET pair 0 shell)
  list(GET pair 1 file)
  add_custom_command(OUTPUT ${completions}/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${completions}
    COMMAND quire completions ${shell} > ${completions}/${file}
    DEPENDS quire)
  list(APPEND completion_files ${completions}/${file})
endforeach()
add_custom_target(quire_completions ALL DEPENDS ${completion_files})

install(TARGETS quire RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${completions}/quire DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${completions}/_quire DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${completions}/quire.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
