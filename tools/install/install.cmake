# cmake --install: the program, the libraries with their headers, find_package(assay), pkg-config, the manual and completion.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/assay)
set(header_dir ${CMAKE_INSTALL_INCLUDEDIR}/assay)
set(installed assay_flags assay_reference assay_kernels assay_oracles assay_language assay_arguments assay_gpu assay_court assay_tools)

install(TARGETS assay RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${installed} EXPORT assay-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT assay-targets NAMESPACE assay:: DESTINATION ${package_dir})
install(DIRECTORY reference oracles files language arguments kernels judge tools DESTINATION ${header_dir}
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h" PATTERN "tools/dev" EXCLUDE PATTERN "tools/gpu" EXCLUDE PATTERN "tools/install" EXCLUDE)
install(FILES mechanisms.def DESTINATION ${header_dir})

configure_package_config_file(tools/install/assay-config.cmake.in ${PROJECT_BINARY_DIR}/install/assay-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/assay-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/assay-config.cmake ${PROJECT_BINARY_DIR}/install/assay-config-version.cmake
  DESTINATION ${package_dir})
# Static libraries that need each other are one group to the linker.
string(JOIN " " ball_flags ${ball_libraries})
configure_file(tools/install/assay.pc.in ${PROJECT_BINARY_DIR}/install/assay.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/install/assay.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The program's own help, as a page of the manual and for the shells.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
install(CODE "
  set(root \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/install/pages.py
    --tool \${root}/${CMAKE_INSTALL_BINDIR}/assay --share \${root}/${CMAKE_INSTALL_DATAROOTDIR} COMMAND_ERROR_IS_FATAL ANY)")
