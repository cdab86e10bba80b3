# The CUDA side, a module that programs load when a config asks for it: its libraries take longer to
# load than a small run takes, and programs must start on machines without them. Sets
# ESPALIER_HAS_CUDA; ON makes a missing toolkit an error, AUTO builds without, and leaves out
# sanitizers, which the driver's address space does not agree with.
set(ESPALIER_CUDA AUTO CACHE STRING "Build the CUDA module: ON, OFF or AUTO (where the toolkit and cuDNN are)")
set(ESPALIER_CUDA_ARCHS "" CACHE STRING "GPU architectures, e.g. 80;90; empty: all that the toolkit has")
set(ESPALIER_HAS_CUDA OFF)

function(espalier_cuda_missing what)
    if(ESPALIER_CUDA STREQUAL "ON")
        message(FATAL_ERROR "ESPALIER_CUDA=ON: ${what}")
    endif()
    message(STATUS "no CUDA module: ${what}")
endfunction()

# What a toolkit can compile for, of the architectures that boxes with several GPUs have.
function(espalier_cuda_archs version out)
    set(archs 75 80 86 89 90)
    if(version VERSION_LESS 13)
        list(PREPEND archs 70)
    endif()
    if(version VERSION_GREATER_EQUAL 12.8)
        list(APPEND archs 100 120)
    endif()
    set(${out} ${archs} PARENT_SCOPE)
endfunction()

macro(espalier_find_cuda)
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
        espalier_cuda_missing("nvcc is not in the path (install the CUDA toolkit)")
    else()
        if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
            set(CMAKE_CUDA_ARCHITECTURES OFF) # set for each target
        endif()
        enable_language(CUDA)
        find_package(CUDAToolkit)
        find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
        find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 libcudnn.so.8
            HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
        if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
            espalier_cuda_missing("CUDA ${CMAKE_CUDA_COMPILER_VERSION} is older than 12")
        elseif(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cublasLt)
            espalier_cuda_missing("the CUDA toolkit has no cuBLASLt")
        elseif(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
            espalier_cuda_missing("cuDNN is not installed (cudnn.h, libcudnn)")
        else()
            set(ESPALIER_HAS_CUDA ON)
            if(NOT ESPALIER_CUDA_ARCHS)
                espalier_cuda_archs(${CMAKE_CUDA_COMPILER_VERSION} ESPALIER_CUDA_ARCHS)
            endif()
            message(STATUS "CUDA module: CUDA ${CMAKE_CUDA_COMPILER_VERSION}, ${CUDNN_LIBRARY}, "
                "architectures ${ESPALIER_CUDA_ARCHS}")
        endif()
    endif()
endmacro()

if(ESPALIER_CUDA STREQUAL "ON" OR (ESPALIER_CUDA STREQUAL "AUTO" AND NOT ESPALIER_SANITIZE))
    espalier_find_cuda()
endif()

# espalier_cuda_module(NAME SOURCES ... DEPS ...): the module. It has copies of its own of what it
# needs of the static libraries and shows nothing but what device/module.h names.
function(espalier_cuda_module name)
    cmake_parse_arguments(M "" "" "SOURCES;DEPS" ${ARGN})
    list(TRANSFORM M_DEPS PREPEND esp_)
    add_library(${name} MODULE ${M_SOURCES})
    set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
        CUDA_ARCHITECTURES "${ESPALIER_CUDA_ARCHS}" CUDA_STANDARD 17 CUDA_RUNTIME_LIBRARY Shared
        C_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
    target_include_directories(${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR})
    target_compile_definitions(${name} PRIVATE
        $<$<COMPILE_LANGUAGE:C>:ESPALIER_CUDA_VERSION="${CMAKE_CUDA_COMPILER_VERSION}">)
    target_compile_options(${name} PRIVATE
        "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler=-Wall,-Wextra,-Wshadow $<$<BOOL:${ESPALIER_WERROR}>:-Werror=all-warnings -Xcompiler=-Werror>>")
    target_link_libraries(${name} PRIVATE espalier_flags ${M_DEPS} CUDA::cudart CUDA::cublasLt ${CUDNN_LIBRARY})
    target_link_options(${name} PRIVATE -Wl,--as-needed -Wl,--no-undefined -Wl,--exclude-libs,ALL)
    add_dependencies(programs ${name})
    install(TARGETS ${name} LIBRARY DESTINATION lib)
endfunction()
