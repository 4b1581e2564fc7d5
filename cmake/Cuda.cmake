# Finds a CUDA compiler and builds kernels with it, without CMake's CUDA language: that one wants a CUDA
# runtime to link, which busbw has no use for, and CMake before 3.31 fails on CUDA 13.
#
#   BUSBW_CUDA                OFF builds for the host only
#   BUSBW_CUDA_ROOT           folder with bin/nvcc (variable or environment); else nvcc on PATH, CUDA_HOME, /usr/local/cuda,
#                             or the compiler's wheels (nvidia-cuda-nvcc, -crt, -runtime, nvidia-nvvm, -cccl) in the active
#                             Python environment (tried with those of CUDA 13.0)
#   BUSBW_CUDA_QUICK          kernels that compile in a tenth of the time and run slower, for a check that they compile; CUDA 13
#   BUSBW_CUDA_ARCHITECTURES  such as 80;90: machine code for each and PTX of the last; empty or all: one for each
#                             generation that the compiler knows, and its PTX of the newest; here: this machine's GPUs

option(BUSBW_CUDA "Build the GPU kernels where a CUDA compiler is found" ON)
set(BUSBW_CUDA_ROOT "$ENV{BUSBW_CUDA_ROOT}" CACHE PATH "Folder with bin/nvcc")
option(BUSBW_CUDA_QUICK "Compile GPU kernels in a tenth of the time; they run slower: to see that they compile" OFF)
set(BUSBW_CUDA_ARCHITECTURES "" CACHE STRING "GPU architectures, such as 80;90; here for this machine's; empty or all for one of each generation")

function(busbw_find_nvcc result)
  if(BUSBW_CUDA_ROOT)
    # A root that was asked for and has no compiler is a mistake, not a reason to take another one.
    find_program(BUSBW_NVCC nvcc PATHS ${BUSBW_CUDA_ROOT}/bin NO_DEFAULT_PATH)
    if(NOT BUSBW_NVCC)
      message(FATAL_ERROR "BUSBW_CUDA_ROOT is '${BUSBW_CUDA_ROOT}', but there is no bin/nvcc in it")
    endif()
  else()
    file(GLOB wheels $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cu*/bin)
    find_program(BUSBW_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin ${wheels})
  endif()
  set(${result} "${BUSBW_NVCC}" PARENT_SCOPE)
endfunction()

# "13.0", or empty where the compiler does not run.
function(busbw_nvcc_version nvcc result)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" ignored "${text}")
  set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

# Of this machine's GPUs, as their driver tells; empty where it shows none.
function(busbw_architectures_here result)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE failed TIMEOUT 60)
  set(found "")
  if(failed EQUAL 0)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" found "${text}")
    string(REPLACE "." "" found "${found}")
    list(REMOVE_DUPLICATES found)
    list(SORT found COMPARE NATURAL)
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Machine code runs on later minor versions of its major one: the first of each generation serves them all. Volta and
# Turing share a major number, but Volta's code is the only one that runs on Volta. `wanted`: generations to build for
# where the user names none.
function(busbw_cuda_architectures nvcc wanted result)
  set(chosen ${BUSBW_CUDA_ARCHITECTURES})
  if(chosen STREQUAL here)
    busbw_architectures_here(chosen)
  elseif(NOT chosen OR chosen STREQUAL all)
    set(chosen "")
    execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE text)
    string(REGEX MATCHALL "compute_[0-9]+" known "${text}")
    foreach(architecture ${wanted})
      if("compute_${architecture}" IN_LIST known)
        list(APPEND chosen ${architecture})
      endif()
    endforeach()
  endif()
  set(${result} "${chosen}" PARENT_SCOPE)
endfunction()

function(busbw_generate_code architectures result)
  set(flags "")
  foreach(architecture ${architectures})
    list(APPEND flags -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET architectures -1 newest)
  list(APPEND flags -gencode=arch=compute_${newest},code=compute_${newest})
  set(${result} "${flags}" PARENT_SCOPE)
endfunction()

# Compiles each of SOURCES (.cu) to an image and embeds all of them in EMBEDDING, a source file of the same folder, which
# finds their paths in BUSBW_IMAGE_<name of the source> and 1000 * major + 10 * minor of the compiler in
# BUSBW_KERNEL_CUDA_VERSION. Without a compiler neither is defined.
function(busbw_embed_kernels)
  cmake_parse_arguments(KERNELS "" "EMBEDDING" "SOURCES;ARCHITECTURES;FLAGS" ${ARGN})
  get_filename_component(for ${KERNELS_EMBEDDING} NAME_WE)
  if(NOT BUSBW_CUDA)
    message(STATUS "CUDA: off; ${for} has no kernels in this build")
    return()
  endif()
  busbw_find_nvcc(nvcc)
  if(nvcc)
    busbw_nvcc_version(${nvcc} version)
  endif()
  if(NOT nvcc OR NOT version OR version VERSION_LESS 12.0)
    message(STATUS "CUDA: no compiler of CUDA 12 or newer found (${nvcc}); ${for} has no kernels in this build. "
                   "Put nvcc on PATH or set BUSBW_CUDA_ROOT")
    return()
  endif()
  busbw_cuda_architectures(${nvcc} "${KERNELS_ARCHITECTURES}" architectures)
  if(NOT architectures)
    message(STATUS "CUDA: no GPU was found; ${for} has no kernels in this build. "
                   "BUSBW_CUDA_ARCHITECTURES=all builds them for every generation")
    return()
  endif()
  busbw_generate_code("${architectures}" code)
  if(BUSBW_CUDA_QUICK AND version VERSION_GREATER_EQUAL 13.0)
    list(APPEND KERNELS_FLAGS --Ofast-compile max)
  endif()
  foreach(source ${KERNELS_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    set(image ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
    add_custom_command(
      OUTPUT ${image}
      # Contraction to fused multiply-add would give other bits than the host's code and the other algorithms.
      COMMAND ${nvcc} -std=c++20 --fmad=false -t 0 -Xfatbin -compress-all ${KERNELS_FLAGS} ${code}
              -ccbin ${CMAKE_CXX_COMPILER} -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include
              -MD -MF ${image}.d --fatbin -o ${image} ${source}
      DEPENDS ${source}
      DEPFILE ${image}.d
      COMMENT "GPU kernels ${name} for sm_${architectures}"
      VERBATIM)
    set_property(SOURCE ${KERNELS_EMBEDDING} APPEND PROPERTY OBJECT_DEPENDS ${image})
    set_property(SOURCE ${KERNELS_EMBEDDING} APPEND PROPERTY COMPILE_DEFINITIONS BUSBW_IMAGE_${name}="${image}")
  endforeach()
  string(REPLACE "." ";" parts ${version})
  list(GET parts 0 major)
  list(GET parts 1 minor)
  math(EXPR code_version "1000 * ${major} + 10 * ${minor}")
  set_property(SOURCE ${KERNELS_EMBEDDING} APPEND PROPERTY COMPILE_DEFINITIONS
    BUSBW_KERNEL_CUDA_VERSION=${code_version})
  message(STATUS "CUDA: ${version} (${nvcc}), kernels of ${for} for ${architectures}")
endfunction()
