# An overlay port of a checkout: vcpkg install transformer-h --overlay-ports=CHECKOUT/tools/cmake/vcpkg
get_filename_component(checkout "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

file(INSTALL "${checkout}/transformer.h" DESTINATION "${CURRENT_PACKAGES_DIR}/include")
if("openblas" IN_LIST FEATURES)
  set(definitions "")
  set(libraries "OpenBLAS::OpenBLAS")
  set(find "find_dependency(OpenBLAS CONFIG)")
else()
  set(definitions "TRF_NO_CBLAS")
  set(libraries "")
  set(find "")
endif()
file(WRITE "${CURRENT_PACKAGES_DIR}/share/${PORT}/transformerConfig.cmake" "\
# find_package(transformer): the target transformer::transformer
include(CMakeFindDependencyMacro)
find_dependency(Threads)
${find}
if(NOT TARGET transformer::transformer)
  get_filename_component(transformer_prefix \"\${CMAKE_CURRENT_LIST_DIR}/../..\" ABSOLUTE)
  add_library(transformer::transformer INTERFACE IMPORTED)
  set_target_properties(transformer::transformer PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES \"\${transformer_prefix}/include\"
    INTERFACE_COMPILE_DEFINITIONS \"${definitions}\"
    INTERFACE_LINK_LIBRARIES \"${libraries};Threads::Threads\")
  if(UNIX)
    set_property(TARGET transformer::transformer APPEND PROPERTY INTERFACE_LINK_LIBRARIES m)
  endif()
endif()
")
file(INSTALL "${checkout}/LICENSE" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}" RENAME copyright)
