# The target `bundle`: a relocatable archive of the programs, the libraries and all that they need but glibc, the CUDA
# driver and CUDA's libraries. Unpacked anywhere on a machine of the same kind it runs; verify.sh in it verifies a GPU.

find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND)
  return()
endif()

set(programs)
foreach(program gpuactors-cli gpuactors-tour gpuactors-train gpuactors-bench example_data_parallel gpu_verify gpu_actors
        test_conformance test_llm test_processes_cuda)
  if(TARGET ${program})
    list(APPEND programs ${program})
  endif()
endforeach()
set(libraries gpuactors)
if(TARGET gpuactors_cuda)
  list(APPEND libraries gpuactors_cuda)
endif()
set(program_files)
foreach(program IN LISTS programs)
  list(APPEND program_files --program $<TARGET_FILE:${program}>)
endforeach()
set(library_files)
foreach(library IN LISTS libraries)
  list(APPEND library_files --library $<TARGET_FILE:${library}>)
endforeach()

set(GPUACTORS_BUNDLE ${CMAKE_BINARY_DIR}/gpuactors-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR}.tar.gz)
add_custom_target(bundle
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/make_bundle.py --output ${GPUACTORS_BUNDLE}
          ${program_files} ${library_files} --loads ${OpenBLAS_LIBRARY} $<$<BOOL:${CMAKE_STRIP}>:--strip> ${CMAKE_STRIP}
          --file ${PROJECT_SOURCE_DIR}/LICENSE
          --file ${PROJECT_SOURCE_DIR}/tests/gpu/verify.sh
          --file ${PROJECT_SOURCE_DIR}/docs/gpu-verification.md
          --folder ${PROJECT_SOURCE_DIR}/tests/data/llm
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/make_bundle.py
  COMMENT "Bundling ${GPUACTORS_BUNDLE}"
  VERBATIM COMMAND_EXPAND_LISTS)
add_dependencies(bundle ${programs} ${libraries})
