# Writes OUT: the programs of SOURCE as texts of C++, by folder and name.
file(GLOB files ${SOURCE}/mechanisms/json/*.json ${SOURCE}/mechanisms/forms/json/*.json
  ${SOURCE}/arguments/programs/json/*.json ${SOURCE}/judge/contract/*.json ${SOURCE}/tools/cases/*.json)
list(SORT files)
set(text "#include \"arguments/programs/library.hpp\"\nnamespace assay::arguments {\nconst Embedded embedded[] = {\n")
foreach(file IN LISTS files)
  file(READ ${file} program)
  cmake_path(GET file STEM name)
  cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${SOURCE} OUTPUT_VARIABLE path)
  string(REGEX REPLACE "/.*" "" folder "${path}")
  string(APPEND text "{\"${folder}\", \"${name}\", R\"json(${program})json\"},\n")
endforeach()
string(APPEND text "};\nconst std::size_t embedded_count = sizeof(embedded) / sizeof(embedded[0]);\n}\n")
file(WRITE ${OUT} "${text}")
