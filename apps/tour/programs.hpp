// The programs, one function each, grouped by file.
#pragma once

#include "tour.hpp"

namespace tour {

// matmul.cpp
gpuactors::Result<void> run_t1(Tour& tour);
gpuactors::Result<void> run_t2(Tour& tour);
gpuactors::Result<void> run_t18(Tour& tour);

// training.cpp
gpuactors::Result<void> run_t3(Tour& tour);
gpuactors::Result<void> run_t16(Tour& tour);
gpuactors::Result<void> run_t17(Tour& tour);

// placement.cpp
gpuactors::Result<void> run_t4(Tour& tour);
gpuactors::Result<void> run_t6(Tour& tour);
gpuactors::Result<void> run_t10(Tour& tour);
gpuactors::Result<void> run_t11(Tour& tour);
gpuactors::Result<void> run_t12(Tour& tour);
gpuactors::Result<void> run_t13(Tour& tour);

// sharing.cpp
gpuactors::Result<void> run_t5(Tour& tour);
gpuactors::Result<void> run_t7(Tour& tour);

// memory.cpp
gpuactors::Result<void> run_t8(Tour& tour);
gpuactors::Result<void> run_t9(Tour& tour);

// kernels.cpp
gpuactors::Result<void> run_t14(Tour& tour);
gpuactors::Result<void> run_t15(Tour& tour);

} // namespace tour
