# The two helpers by which every folder's CMakeLists.txt is a list.

# tost_library(NAME folder SOURCES a.cc … DEPENDS tost::autograd absl::strings …)
# A static library tost::<NAME>. What it may include is what it depends on.
function(tost_library)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;DEPENDS" ${ARGN})
  add_library(tost_${ARG_NAME} STATIC ${ARG_SOURCES})
  add_library(tost::${ARG_NAME} ALIAS tost_${ARG_NAME})
  target_include_directories(tost_${ARG_NAME} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(tost_${ARG_NAME} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${TOST_WARNINGS}>")
  target_link_libraries(tost_${ARG_NAME} PUBLIC ${ARG_DEPENDS})
endfunction()

# tost_test(NAME file_test KIND gradcheck SOURCES a_test.cc … DEPENDS tost::ops … [LABELS slow])
# One test program; each of its tests becomes a CTest named <KIND>.<Suite>.<Test>.
function(tost_test)
  cmake_parse_arguments(ARG "" "NAME;KIND" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT TOST_TESTS)
    return()
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_compile_options(${ARG_NAME} PRIVATE ${TOST_WARNINGS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${ARG_NAME} PRIVATE TOST_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                 TOST_BINARY="${PROJECT_BINARY_DIR}/tost")
  set(properties TIMEOUT 600)
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  gtest_discover_tests(${ARG_NAME} TEST_PREFIX "${ARG_KIND}." DISCOVERY_TIMEOUT 60
                       PROPERTIES ${properties})
endfunction()
