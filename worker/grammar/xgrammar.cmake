# The library that makes automata of grammars: xgrammar, built here from the source that deploy/packages.sh has
# downloaded. Sets ROOST_HAS_GRAMMAR and makes the target roost_xgrammar. Its own CMake files want Python bindings.
set(ROOST_XGRAMMAR_VERSION 0.2.8)
if(NOT ROOST_GRAMMAR MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ROOST_GRAMMAR=${ROOST_GRAMMAR}: must be AUTO, ON or OFF")
endif()
set(cache_folder "$ENV{XDG_CACHE_HOME}")
if(NOT cache_folder)
  set(cache_folder "$ENV{HOME}/.cache")
endif()
set(xgrammar "${ROOST_XGRAMMAR}")
if(NOT xgrammar)
  set(xgrammar "$ENV{ROOST_XGRAMMAR}")
endif()
if(NOT xgrammar)
  set(xgrammar "${cache_folder}/roost/xgrammar-${ROOST_XGRAMMAR_VERSION}")
endif()

set(ROOST_HAS_GRAMMAR OFF)
if(NOT ROOST_GRAMMAR STREQUAL "OFF" AND EXISTS ${xgrammar}/include/xgrammar/xgrammar.h)
  set(ROOST_HAS_GRAMMAR ON)
elseif(ROOST_GRAMMAR STREQUAL "ON")
  message(FATAL_ERROR "ROOST_GRAMMAR=ON, but ${xgrammar} holds no source of xgrammar: deploy/packages.sh downloads it, "
                      "ROOST_XGRAMMAR names another folder")
endif()
if(NOT ROOST_HAS_GRAMMAR)
  message(STATUS "Constrained output: OFF, without xgrammar in ${xgrammar}")
  return()
endif()
message(STATUS "Constrained output: xgrammar in ${xgrammar}")

# Two changes to the source, in copies of the files that have them. Each says what it replaces, so that a version with
# other text there stops here.
#   A repetition is written out up to this many times, beyond that it is counted. Each copy of a character is a state of
#   its own, for which every token of the vocabulary is tried: 128 of them cost seconds.
#   Patterns of schemas are compiled as regular expressions are. The other way writes every repetition out, and fails a
#   check of the library's own where one has more than 128.
function(roost_change_xgrammar file from to)
  file(READ ${xgrammar}/cpp/${file} text)
  string(FIND "${text}" "${from}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${xgrammar}/cpp/${file} has no '${from}': worker/grammar/xgrammar.cmake knows version "
                        "${ROOST_XGRAMMAR_VERSION}")
  endif()
  string(REPLACE "${from}" "${to}" text "${text}")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/xgrammar/${file} CONTENT "${text}" @ONLY)
  list(REMOVE_ITEM xgrammar_sources ${xgrammar}/cpp/${file})
  list(APPEND xgrammar_sources ${CMAKE_CURRENT_BINARY_DIR}/xgrammar/${file})
  set(xgrammar_sources "${xgrammar_sources}" PARENT_SCOPE)
endfunction()

file(GLOB xgrammar_sources ${xgrammar}/cpp/*.cc ${xgrammar}/cpp/converter_ext/*.cc ${xgrammar}/cpp/support/*.cc)
roost_change_xgrammar(grammar_functor.cc "kUnzipThreshold = 128;" "kUnzipThreshold = 16;")
roost_change_xgrammar(json_schema_converter.cc "can_use_fsm = !force_cfg_expansion;" "can_use_fsm = false;")
add_library(roost_xgrammar STATIC ${xgrammar_sources})
target_include_directories(roost_xgrammar SYSTEM PUBLIC
  ${xgrammar}/include ${xgrammar}/3rdparty/picojson ${xgrammar}/3rdparty/dlpack/include ${xgrammar}/cpp)
# What it logs and throws goes through functions of ours: a warning of the library is an error of the request.
target_compile_definitions(roost_xgrammar PUBLIC PICOJSON_USE_INT64 XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0)
target_compile_options(roost_xgrammar PRIVATE -w)
if(ROOST_SANITIZE STREQUAL "fuzzer")  # it follows what is covered; other sanitizers watch our code
  target_compile_options(roost_xgrammar PRIVATE ${sanitize_flags})
endif()
target_link_libraries(roost_xgrammar PRIVATE roost_hardening)
set_target_properties(roost_xgrammar PROPERTIES CXX_STANDARD 17 EXPORT_COMPILE_COMMANDS OFF)
# A name in it is that of another source.
set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/xgrammar/json_schema_converter.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
