// What the settings `inputs` and `outputs` of a TorchScript model say: names, datatypes and shapes of rows. Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <apps/serve/service.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace torchscript {

/// An input or output as its setting writes it.
struct NamedRows {
  std::string name;
  /// None: the setting has only the name.
  std::optional<serve::DataType> type;
  /// The dimensions of a row; none for one element.
  std::vector<std::int64_t> row_shape;

  /// Bytes of one row. Only where there is a type.
  [[nodiscard]] std::size_t row_bytes() const noexcept;

  friend bool operator==(const NamedRows&, const NamedRows&) = default;
};

/// Renders what `parse_rows` reads: "x:FP32:3x224x224".
[[nodiscard]] std::string to_string(const NamedRows& rows);

/// Reads "x:FP32:3x224x224+mask:BOOL": one tensor after the other, joined by +, with name, datatype and the dimensions
/// of a row. No character of it means anything to a shell or to the options of gpuactors-serve. `key` is the setting's
/// name for error texts.
/// @returns `invalid_argument` for anything else, naming the part: 1 to 16 tensors with names of their own; datatypes
///          that libtorch has too; dimensions of at least 1, and rows that fit into a batch.
[[nodiscard]] gpuactors::Result<std::vector<NamedRows>> parse_rows(std::string_view key, std::string_view text);

/// Reads the setting `inputs`, whose tensors all need a datatype.
[[nodiscard]] gpuactors::Result<std::vector<NamedRows>> parse_inputs(std::string_view text);

/// Whether libtorch has elements of the type. It has no BYTES and, of numbers without sign, only UINT8.
[[nodiscard]] bool is_torch_type(serve::DataType type) noexcept;

} // namespace torchscript
