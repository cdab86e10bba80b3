# How every part of espalier is compiled, and the functions that the folders use.
add_library(espalier_flags INTERFACE)
target_compile_definitions(espalier_flags INTERFACE _GNU_SOURCE)
target_compile_options(espalier_flags INTERFACE "$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wshadow;-Wstrict-prototypes;-Wmissing-prototypes;-Wpointer-arith;-Wwrite-strings;-Wvla;-fno-math-errno>")
target_include_directories(espalier_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
if(ESPALIER_WERROR)
    target_compile_options(espalier_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
if(ESPALIER_SANITIZE)
    target_compile_options(espalier_flags INTERFACE -fsanitize=${ESPALIER_SANITIZE}
        -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(espalier_flags INTERFACE -fsanitize=${ESPALIER_SANITIZE})
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

# What people run, without the tests; and what runs under the thread sanitizer.
add_custom_target(programs)
add_custom_target(race_drivers)

# espalier_module(NAME SOURCES a.c b.c DEPS base config ...): a folder as the static library esp_NAME.
function(espalier_module name)
    cmake_parse_arguments(M "" "" "SOURCES;DEPS;LIBS" ${ARGN})
    add_library(esp_${name} STATIC ${M_SOURCES})
    list(TRANSFORM M_DEPS PREPEND esp_)
    target_link_libraries(esp_${name} PUBLIC espalier_flags ${M_DEPS} PRIVATE ${M_LIBS})
endfunction()

# espalier_program(NAME SOURCES a.c ... DEPS train ...): a program, linked at the root by `make`.
function(espalier_program name)
    cmake_parse_arguments(P "" "" "SOURCES;DEPS;LIBS" ${ARGN})
    add_executable(${name} ${P_SOURCES})
    list(TRANSFORM P_DEPS PREPEND esp_)
    target_link_libraries(${name} PRIVATE espalier_flags ${P_DEPS} ${P_LIBS})
    add_dependencies(programs ${name})
    install(TARGETS ${name} RUNTIME)
endfunction()

# Settings of the sanitizers' run time; harmless in other builds.
set(ESPALIER_TEST_ENVIRONMENT
    "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")

# espalier_add_test(NAME COMMAND ... LABELS ...): a ctest with the environment above.
function(espalier_add_test name)
    cmake_parse_arguments(T "" "TIMEOUT" "COMMAND;LABELS" ${ARGN})
    add_test(NAME ${name} COMMAND ${T_COMMAND} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    if(NOT T_TIMEOUT)
        set(T_TIMEOUT 1500)
    endif()
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${ESPALIER_TEST_ENVIRONMENT}"
        LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT})
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
    espalier_add_test(${name} COMMAND test_${name})
endfunction()

# espalier_race(DEPS comm ...): each race_*.c of the calling folder is a driver with a main of its own and
# the ctest of that name. Criterion does not start under the thread sanitizer; these do.
function(espalier_race)
    cmake_parse_arguments(T "" "" "DEPS;LIBS" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/race_*.c)
    list(TRANSFORM T_DEPS PREPEND esp_)
    foreach(source ${sources})
        get_filename_component(name ${source} NAME_WE)
        add_executable(${name} ${source})
        target_link_libraries(${name} PRIVATE ${T_DEPS} ${T_LIBS})
        add_dependencies(race_drivers ${name})
        espalier_add_test(${name} COMMAND ${name} LABELS race)
    endforeach()
endfunction()
