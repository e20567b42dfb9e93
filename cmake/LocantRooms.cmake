# The rooms of src/ as object libraries, and the library made of them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(LocantDependencies)

add_library(locant_flags INTERFACE)
target_compile_options(locant_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow
  $<$<BOOL:${LOCANT_WERROR}>:-Werror>)
if(LOCANT_SANITIZE)
  target_compile_options(locant_flags INTERFACE -fsanitize=${LOCANT_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(locant_flags INTERFACE -fsanitize=${LOCANT_SANITIZE})
endif()

# locant_require(NAME LIBRARY header | PACKAGE name  apt dnf brew): finds a system library as locant_dep_NAME,
# or stops with the line that installs it.
function(locant_require name kind what apt dnf brew)
  set(found FALSE)
  if(kind STREQUAL "PACKAGE")
    find_package(${what} QUIET)
    if(${what}_FOUND)
      set(found TRUE)
      set(link ${what}::${what})
    endif()
  else()
    locant_find_library(${name} ${what})
    if(TARGET locant_deps::${name})
      set(found TRUE)
      set(link locant_deps::${name})
    endif()
  endif()
  if(NOT found)
    message(FATAL_ERROR "locant: ${name} is not installed; "
      "apt-get install ${apt} (Debian), dnf install ${dnf} (Fedora) or brew install ${brew} (macOS)")
  endif()
  add_library(locant_dep_${name} INTERFACE)
  target_link_libraries(locant_dep_${name} INTERFACE ${link})
endfunction()

# locant_room(NAME deps...): src/NAME/*.cc and src/NAME/*/*.cc as an object library.
function(locant_room name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc ${PROJECT_SOURCE_DIR}/src/${name}/*/*.cc)
  if(NOT sources)
    return()
  endif()
  add_library(locant_${name} OBJECT ${sources})
  target_include_directories(locant_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(locant_${name} PRIVATE locant_flags Threads::Threads)
  foreach(dep IN LISTS ARGN)
    target_link_libraries(locant_${name} PRIVATE locant_dep_${dep})
  endforeach()
  if(name STREQUAL "core")
    target_compile_definitions(locant_core PRIVATE LOCANT_VERSION="${PROJECT_VERSION}")
  elseif(name STREQUAL "reference")
    # the oracle is the same on every compiler and machine
    target_compile_options(locant_reference PRIVATE -ffp-contract=off)
  elseif(name STREQUAL "positions" OR name STREQUAL "kernels")
    # fused products would move the roundings that a recipe imitates, or that a bound counts on
    target_compile_options(locant_${name} PRIVATE -ffp-contract=off)
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCANT_ROOMS ${name})
endfunction()

# The library of all rooms, with its package.
function(locant_library)
  get_property(rooms GLOBAL PROPERTY LOCANT_ROOMS)
  add_library(locant)
  add_library(locant::locant ALIAS locant)
  foreach(room IN LISTS rooms)
    target_sources(locant PRIVATE $<TARGET_OBJECTS:locant_${room}>)
  endforeach()
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/locant/*.h)
  target_sources(locant PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${headers})
  target_compile_features(locant PUBLIC cxx_std_20)
  set_target_properties(locant PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} VERIFY_INTERFACE_HEADER_SETS ON)
  # Static archives need these at the consumer's link; locantConfig.cmake finds them again.
  target_link_libraries(locant PRIVATE Threads::Threads $<BUILD_INTERFACE:locant_flags>
    locant_deps::hwy locant_deps::sentencepiece fmt::fmt)
  if(LOCANT_INSTALL)
    locant_install_library()
  endif()
endfunction()

# Headers, library, CMake package, pkg-config file and the bundled models.
function(locant_install_library)
  install(TARGETS locant EXPORT locantTargets FILE_SET HEADERS)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/locant)
  install(EXPORT locantTargets NAMESPACE locant:: DESTINATION ${package})
  set(LOCANT_IS_SHARED FALSE)
  set(LOCANT_PC_REQUIRES Requires)
  if(BUILD_SHARED_LIBS)
    set(LOCANT_IS_SHARED TRUE)
    set(LOCANT_PC_REQUIRES Requires.private)
  endif()
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/locantConfig.cmake.in
    ${PROJECT_BINARY_DIR}/locantConfig.cmake INSTALL_DESTINATION ${package})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/locantConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/locantConfig.cmake ${PROJECT_BINARY_DIR}/locantConfigVersion.cmake
    ${PROJECT_SOURCE_DIR}/cmake/LocantDependencies.cmake DESTINATION ${package})
  # The pkg-config file finds its prefix from where it stands, so that an installed tree can be moved.
  file(RELATIVE_PATH LOCANT_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" LOCANT_PC_TO_PREFIX "${LOCANT_PC_TO_PREFIX}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/locant.pc.in ${PROJECT_BINARY_DIR}/locant.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/locant.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/locant/models OPTIONAL)
endfunction()
