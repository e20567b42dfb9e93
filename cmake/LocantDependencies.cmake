# Libraries without a dependable CMake package, found as imported targets; the build and the installed
# package use the same lines, so that no path of the build machine is exported.

# locant_find_library(NAME header): locant_deps::NAME, or nothing where it is not installed.
function(locant_find_library name header)
  if(TARGET locant_deps::${name})
    return()
  endif()
  find_library(LOCANT_LIB_${name} ${name})
  find_path(LOCANT_INC_${name} ${header})
  mark_as_advanced(LOCANT_LIB_${name} LOCANT_INC_${name})
  if(LOCANT_LIB_${name} AND LOCANT_INC_${name})
    add_library(locant_deps::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(locant_deps::${name} PROPERTIES IMPORTED_LOCATION ${LOCANT_LIB_${name}}
      INTERFACE_INCLUDE_DIRECTORIES ${LOCANT_INC_${name}})
  endif()
endfunction()
