// The version of the library. Below 1.0 every minor version may change what programs are compiled against.
#pragma once

#define GPUACTORS_VERSION_MAJOR 0
#define GPUACTORS_VERSION_MINOR 1

namespace gpuactors {

/// The release that the processes of a cluster report to each other.
inline constexpr const char* release = "0.1.0";

} // namespace gpuactors
