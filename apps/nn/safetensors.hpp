// Files of named arrays in the safetensors format, whole and unaltered or not at all.
//
// A file is replaced in one moment: written beside its name, brought to the disk, then renamed. Its metadata hold a
// checksum over every byte, which readers of other programs ignore. docs/reference/checkpoints.md has the layout.
#pragma once

#include <gpuactors/base/result.hpp>
#include <gpuactors/device/types.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace nn {

/// An array in a file, or one to write.
struct NamedArray {
  gpuactors::DType dtype = gpuactors::DType::f32;
  std::vector<std::int64_t> shape;
  /// Row by row, little-endian.
  std::span<const std::byte> bytes;
};

using Metadata = std::map<std::string, std::string>;
using NamedArrays = std::map<std::string, NamedArray>;

/// What a file holds. The arrays lie in `storage`; movable.
struct Safetensors {
  Metadata metadata;
  NamedArrays arrays;
  std::vector<std::byte> storage;
};

/// Writes a file, in place of one of that name, with the checksum added to the metadata.
/// @returns `invalid_argument` for an array whose bytes do not fit its shape; `unavailable` with the system's words and
///          the path when it cannot be written, and the old file is as it was.
gpuactors::Result<void> write_safetensors(const std::filesystem::path& path, const Metadata& metadata,
                                          const NamedArrays& arrays);

/// Whether a file must have a checksum to be read. One that it has is always held against the file.
enum class Checksum { required, optional };

/// Reads a file and holds it against its checksum.
/// @returns `not_found` when there is none; `invalid_argument` naming the path and what is wrong with it: truncated,
///          altered, without a checksum where one is required, or no such file at all.
gpuactors::Result<Safetensors> read_safetensors(const std::filesystem::path& path,
                                                Checksum checksum = Checksum::required);

/// The same without the bytes of the arrays, which are empty: reads the head of the file only, whose arrays must lie
/// within it. The checksum is not held against it.
gpuactors::Result<Safetensors> read_safetensors_head(const std::filesystem::path& path);

} // namespace nn
