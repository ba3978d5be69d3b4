#include <apps/serve/protocol/data_type.hpp>

#include <array>

namespace serve {

namespace {

struct TypeRow {
  DataType type;
  std::string_view name;
  std::size_t bytes;
};

// In the order of the enumeration.
constexpr std::array<TypeRow, 14> type_rows{{
    {DataType::boolean, "BOOL", 1},
    {DataType::uint8, "UINT8", 1},
    {DataType::uint16, "UINT16", 2},
    {DataType::uint32, "UINT32", 4},
    {DataType::uint64, "UINT64", 8},
    {DataType::int8, "INT8", 1},
    {DataType::int16, "INT16", 2},
    {DataType::int32, "INT32", 4},
    {DataType::int64, "INT64", 8},
    {DataType::fp16, "FP16", 2},
    {DataType::bf16, "BF16", 2},
    {DataType::fp32, "FP32", 4},
    {DataType::fp64, "FP64", 8},
    {DataType::bytes, "BYTES", 0},
}};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < type_rows.size(); ++i)
    if (static_cast<std::size_t>(type_rows[i].type) != i)
      return false;
  return true;
}
static_assert(rows_are_in_order());

} // namespace

std::string_view to_string(DataType type) noexcept {
  return type_rows[static_cast<std::size_t>(type)].name;
}

std::optional<DataType> parse_data_type(std::string_view name) noexcept {
  for (const auto& row : type_rows)
    if (row.name == name)
      return row.type;
  return std::nullopt;
}

std::size_t element_bytes(DataType type) noexcept {
  return type_rows[static_cast<std::size_t>(type)].bytes;
}

} // namespace serve
