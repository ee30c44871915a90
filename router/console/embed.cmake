# Writes a source that holds files as raw strings.
#
#   cmake -DFOLDER=… -DFILES=index.html,app.js -DOUTPUT=….cc -P embed.cmake
#
# The delimiter of the raw strings must not occur in a file; files are text in UTF-8.
set(delimiter roost_file)
set(type_of_html "text/html; charset=utf-8")
set(type_of_css "text/css; charset=utf-8")
set(type_of_js "text/javascript; charset=utf-8")
set(type_of_svg "image/svg+xml")

string(REPLACE "," ";" names "${FILES}")
set(entries "")
foreach(name IN LISTS names)
  file(READ "${FOLDER}/${name}" content)
  file(SHA256 "${FOLDER}/${name}" digest)
  string(SUBSTRING "${digest}" 0 32 tag)
  string(REGEX REPLACE ".*\\." "" extension "${name}")
  if(NOT DEFINED type_of_${extension})
    message(FATAL_ERROR "${name}: embed.cmake knows no content type for .${extension}")
  endif()
  string(FIND "${content}" ")${delimiter}\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${name}: it holds the delimiter of its raw string")
  endif()
  string(APPEND entries "    ConsoleFile{\"${name}\", \"${type_of_${extension}}\", R\"(\"${tag}\")\",\n"
                        "                R\"${delimiter}(${content})${delimiter}\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Written by router/console/embed.cmake.
#include <array>

#include \"router/console/console_files.h\"

namespace roost::router {

std::span<const ConsoleFile> ConsoleFiles() {
  static constexpr std::array kFiles{
${entries}  };
  return kFiles;
}

}  // namespace roost::router
")
