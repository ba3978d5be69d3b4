// Networks and the state of their training in files that others can read. docs/reference/checkpoints.md has the layout.
#pragma once

#include "safetensors.hpp"
#include "trainer.hpp"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace nn {

/// What a checkpoint says beside the arrays of a training. A plain value.
struct Progress {
  /// Updates that were made.
  std::uint64_t step = 0;
  /// What decides initial weights, splits and shuffles.
  std::uint64_t seed = 0;
  /// What else the training wants to find again; keys begin with "training.".
  Metadata notes;
};

/// The number that the metadata of a checkpoint have under a key; `T` is `std::uint64_t` or `double`. `path` is for
/// errors.
/// @returns `invalid_argument` when there is none, or something else than a number.
template <class T>
gpuactors::Result<T> number_in(const Metadata& metadata, std::string_view key, const std::filesystem::path& path);

/// Writes parameters, optimizer memory and progress, in place of a file of that name, in one moment. Waits for the
/// stream.
/// @returns what the stream or the file system reports; the old file is then as it was.
gpuactors::Result<void> save_training(const std::filesystem::path& path, Trainer& trainer, std::uint64_t seed,
                                      const Metadata& notes = {});

/// Sets `trainer` to what a checkpoint says, so that it goes on as if it had not stopped. Waits for the stream.
/// @returns `not_found`; `invalid_argument` when the file is damaged or has no checksum, is of another network, loss or
///          optimizer, or has arrays of another type than the network: the trainer is then as it was.
gpuactors::Result<Progress> load_training(const std::filesystem::path& path, Trainer& trainer);

/// Writes the parameters only, for who serves them.
gpuactors::Result<void> save_network(const std::filesystem::path& path, Network& network);

/// The network in a checkpoint: sizes and type from the shapes of its arrays, the rest from its metadata. Reads the
/// head of the file only. `max_rows` is left as it is by default.
/// @returns `not_found`; `invalid_argument` when it is no checkpoint of a network.
gpuactors::Result<NetworkSpec> read_spec(const std::filesystem::path& path);

/// The same network on a device, for at most `max_rows` rows at once; parameters of 16 bits become f32. The file is
/// held against its checksum, if it has one: files that other programs wrote have none.
/// @returns as `read_spec`, and `invalid_argument` when the file is damaged, `out_of_memory`.
gpuactors::Result<Network> load_network(gpuactors::Stream& stream, const std::filesystem::path& path,
                                        std::int64_t max_rows);

} // namespace nn
