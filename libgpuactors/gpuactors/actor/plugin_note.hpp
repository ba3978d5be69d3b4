// Records the versions that a library with tasks and actors was built with in an ELF note, which can be read without
// running any of its code. Each source that includes this header adds the note.
#pragma once

#include <gpuactors/base/version.hpp>
#include <gpuactors/wire/payload.hpp>

#include <caf/config.hpp>

#include <cstdint>

namespace gpuactors::detail {

/// Versions that must agree between a plugin and the program that loads it, as major * 1000 + minor.
struct BuiltWith {
  std::uint32_t gpuactors = GPUACTORS_VERSION_MAJOR * 1000 + GPUACTORS_VERSION_MINOR;
  std::uint32_t protobuf = GOOGLE_PROTOBUF_VERSION / 1000;
  std::uint32_t caf = CAF_MAJOR_VERSION * 1000 + CAF_MINOR_VERSION;

  friend bool operator==(const BuiltWith&, const BuiltWith&) = default;
};

inline constexpr char plugin_note_name[12] = "gpuactors"; // padded to a multiple of 4, as ELF notes require
inline constexpr std::uint32_t plugin_note_type = 1;

/// An ELF note as it lies in the object file: header, name, content.
struct PluginNote {
  std::uint32_t name_bytes = sizeof(plugin_note_name);
  std::uint32_t content_bytes = sizeof(BuiltWith);
  std::uint32_t type = plugin_note_type;
  char name[sizeof(plugin_note_name)] = {'g', 'p', 'u', 'a', 'c', 't', 'o', 'r', 's'};
  BuiltWith content{};
};

} // namespace gpuactors::detail

/// Adds a note to the object file. The arguments initialize its `BuiltWith`; without arguments, it has the versions of
/// these headers.
#define GPUACTORS_PLUGIN_NOTE(...)                                                                                     \
  namespace gpuactors::detail {                                                                                        \
  [[gnu::section(".note.gpuactors"), gnu::used]] alignas(4) static const PluginNote plugin_note{                       \
      .content = {__VA_ARGS__}};                                                                                       \
  }

#ifndef GPUACTORS_OWN_PLUGIN_NOTE
GPUACTORS_PLUGIN_NOTE()
#endif
