# busbw_test(TARGET TIMEOUT SECONDS): makes ctest run an executable's tests. Their label follows from its name: `ranks` for
# those that start threads or processes as ranks, `gpu` for those that need a GPU, else `unit`. The headers that nearly all
# of them begin with are compiled once: reading GoogleTest alone takes a compiler longer than most of these files.
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  add_executable(busbw_test_headers ${CMAKE_CURRENT_LIST_DIR}/test_headers.cc)
  target_link_libraries(busbw_test_headers PRIVATE busbw_flags GTest::gtest_main)
  target_compile_options(busbw_test_headers PRIVATE $<$<CONFIG:Release>:-O1>)
  target_precompile_headers(busbw_test_headers PRIVATE <gtest/gtest.h> <algorithm> <atomic> <chrono> <cstdlib> <cstring>
                            <filesystem> <functional> <map> <memory> <mutex> <random> <string> <thread> <vector>)
endif()

function(busbw_test target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "")
  set(label unit)
  if(target MATCHES "_ranks_test$")
    set(label ranks)
  elseif(target MATCHES "_gpu_test$")
    set(label gpu)
  endif()
  # A sanitizer sees nothing of a test that is only compiled, and a race needs two threads: what names neither threads nor
  # processes is left to the address sanitizer.
  get_target_property(sources ${target} SOURCES)
  list(GET sources 0 source)
  file(STRINGS ${source} together REGEX "std::j?thread|pthread_|async|fork\\(|popen|spawn|system\\(|_USER" LIMIT_COUNT 1)
  if(BUSBW_SANITIZE AND label STREQUAL "gpu" OR BUSBW_SANITIZE STREQUAL "thread" AND label STREQUAL "unit" AND NOT together)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  # Other options than the headers were compiled with would only add a warning, and a compiler's cache knows nothing of
  # headers that were compiled before.
  get_target_property(options ${target} COMPILE_OPTIONS)
  if(NOT options AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(${target} REUSE_FROM busbw_test_headers)
  endif()
  # What is tested is compiled as users have it; the tests themselves need no -O3, which takes a compiler twice as long.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  gtest_discover_tests(${target} PROPERTIES LABELS ${label} TIMEOUT ${ARG_TIMEOUT} DISCOVERY_TIMEOUT 60)
endfunction()
