#   transformer::transformer    the header, with the options and the libraries of that make
#   transformer::vectors        its machine flags (-march=native): for programs that stay on this machine
#   transformer::trf            the command line, for custom commands that train or translate
#
# All paths begin at this file's folder, so the whole installation may be moved.
get_filename_component(transformer_prefix "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(transformer_prefix "${transformer_prefix}/../../../.." ABSOLUTE)
foreach(part options libraries vectors)
  separate_arguments(transformer_${part} UNIX_COMMAND "${transformer_${part}}")
endforeach()

include(CMakeFindDependencyMacro)
find_dependency(Threads)
if(NOT TARGET transformer::transformer)
  add_library(transformer::transformer INTERFACE IMPORTED)
  set_target_properties(transformer::transformer PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${transformer_prefix}/include"
    INTERFACE_COMPILE_OPTIONS "${transformer_options}"
    INTERFACE_LINK_LIBRARIES "${transformer_libraries};Threads::Threads")
  add_library(transformer::vectors INTERFACE IMPORTED)
  set_target_properties(transformer::vectors PROPERTIES INTERFACE_COMPILE_OPTIONS "${transformer_vectors}")
  add_executable(transformer::trf IMPORTED)
  set_target_properties(transformer::trf PROPERTIES IMPORTED_LOCATION "${transformer_prefix}/bin/trf")
endif()
