# How every part of espalier is compiled, and the two functions that the folders use.
add_library(espalier_flags INTERFACE)
target_compile_definitions(espalier_flags INTERFACE _GNU_SOURCE)
target_compile_options(espalier_flags INTERFACE -Wall -Wextra -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -fno-math-errno)
target_include_directories(espalier_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
if(ESPALIER_WERROR)
    target_compile_options(espalier_flags INTERFACE -Werror)
endif()
if(ESPALIER_SANITIZE)
    target_compile_options(espalier_flags INTERFACE -fsanitize=${ESPALIER_SANITIZE}
        -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(espalier_flags INTERFACE -fsanitize=${ESPALIER_SANITIZE})
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

# espalier_module(NAME SOURCES a.c b.c DEPS base config ...): a folder as the static library esp_NAME.
function(espalier_module name)
    cmake_parse_arguments(M "" "" "SOURCES;DEPS;LIBS" ${ARGN})
    add_library(esp_${name} STATIC ${M_SOURCES})
    list(TRANSFORM M_DEPS PREPEND esp_)
    target_link_libraries(esp_${name} PUBLIC espalier_flags ${M_DEPS} PRIVATE ${M_LIBS})
endfunction()

# espalier_test(NAME DEPS base ...): all test_*.c of the calling folder as the ctest NAME, with Criterion.
# Links the named modules only, so that an upward call does not link.
function(espalier_test name)
    cmake_parse_arguments(T "" "" "DEPS;LIBS" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/test_*.c)
    if(NOT sources)
        return()
    endif()
    add_executable(test_${name} ${sources})
    list(TRANSFORM T_DEPS PREPEND esp_)
    target_link_libraries(test_${name} PRIVATE ${T_DEPS} ${T_LIBS} PkgConfig::CRITERION)
    target_compile_definitions(test_${name} PRIVATE
        TEST_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TEST_BINARY_DIR="${CMAKE_BINARY_DIR}")
    add_test(NAME ${name} COMMAND test_${name})
endfunction()
