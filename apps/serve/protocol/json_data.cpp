#include <apps/serve/protocol/data_type.hpp>
#include <apps/serve/protocol/json_data.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace serve {

using namespace json_in;

namespace {

/// Where the elements of one type go, as JSON says them.
template <class T>
class Elements {
public:
  explicit Elements(std::size_t room) {
    values_.reserve(room);
  }

  simdjson::error_code append(Value value) {
    T element{};
    const auto error = read(value, element);
    if (error == simdjson::SUCCESS)
      values_.push_back(element);
    return error;
  }

  [[nodiscard]] static std::string wanted() {
    if constexpr (std::is_integral_v<T>)
      return fmt::format("a whole number from {} to {}", std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
    else
      return fmt::format("a number of at most {:.3g} either way", std::numeric_limits<T>::max());
  }

  Bytes bytes() && {
    return Bytes::of(std::move(values_));
  }

private:
  static simdjson::error_code read(Value value, T& element) {
    if constexpr (std::is_floating_point_v<T>) {
      double number = 0;
      if (const auto error = value.get_double().get(number); error != simdjson::SUCCESS)
        return error;
      element = static_cast<T>(number);
      return std::isfinite(element) ? simdjson::SUCCESS : simdjson::NUMBER_OUT_OF_RANGE;
    } else {
      std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t> number{};
      if (const auto error = value.get(number); error != simdjson::SUCCESS)
        return error;
      element = static_cast<T>(number);
      return element == number ? simdjson::SUCCESS : simdjson::NUMBER_OUT_OF_RANGE;
    }
  }

  std::vector<T> values_;
};

/// BOOL: true and false, or 1 and 0.
class Booleans {
public:
  explicit Booleans(std::size_t room) {
    values_.reserve(room);
  }

  simdjson::error_code append(Value value) {
    simdjson::ondemand::json_type type{};
    if (const auto error = value.type().get(type); error != simdjson::SUCCESS)
      return error;
    bool element = false;
    if (type == simdjson::ondemand::json_type::number) {
      std::uint64_t number = 0;
      if (const auto error = value.get_uint64().get(number); error != simdjson::SUCCESS)
        return error;
      if (number > 1)
        return simdjson::NUMBER_OUT_OF_RANGE;
      element = number == 1;
    } else if (const auto error = value.get_bool().get(element); error != simdjson::SUCCESS) {
      return error;
    }
    values_.push_back(element ? 1 : 0);
    return simdjson::SUCCESS;
  }

  [[nodiscard]] static std::string wanted() {
    return "true or false";
  }

  Bytes bytes() && {
    return Bytes::of(std::move(values_));
  }

private:
  std::vector<std::uint8_t> values_;
};

class Strings {
public:
  explicit Strings(std::size_t) {
    // nop
  }

  simdjson::error_code append(Value value) {
    std::string_view element;
    const auto error = value.get_string().get(element);
    if (error == simdjson::SUCCESS)
      append_bytes_element(values_, element);
    return error;
  }

  [[nodiscard]] static std::string wanted() {
    return "a string";
  }

  Bytes bytes() && {
    // What is kept is what is counted: it has grown to up to twice its size.
    values_.shrink_to_fit();
    return Bytes::of(std::move(values_));
  }

private:
  std::string values_;
};

/// Goes through the arrays of one tensor.
template <class Store>
class DataReader {
public:
  DataReader(const NamedTensor& tensor, std::uint64_t count, std::size_t most)
    : tensor_(tensor), what_(input_name(tensor.name)), count_(count),
      store_(static_cast<std::size_t>(std::min<std::uint64_t>(count, most))) {
    // nop
  }

  Result<Bytes> read(Value value) {
    GPUACTORS_TRY(read_level(value, 0));
    if (read_ != count_)
      return wrong_count();
    return std::move(store_).bytes();
  }

private:
  Result<void> read_level(Value value, std::size_t level) {
    Array array;
    if (const auto error = value.get_array().get(array); error != simdjson::SUCCESS)
      return mistyped(error, what_ + "'s data", "an array");
    std::uint64_t here = 0;
    bool nested = false;
    for (auto item : array) {
      Value element;
      if (const auto error = item.get(element); error != simdjson::SUCCESS)
        return malformed(error);
      // The first element says how it goes on. A tensor of one dimension has nothing to nest.
      if (here++ == 0)
        GPUACTORS_TRY(look(element, level, nested));
      if (nested) {
        GPUACTORS_TRY(read_level(element, level + 1));
      } else {
        GPUACTORS_TRY(append(element));
      }
    }
    // All elements in one array are counted at the end.
    const auto flat = level == 0 && !nested;
    if (!flat && here != static_cast<std::uint64_t>(tensor_.shape[level]))
      return fail(Errc::invalid_argument,
                  fmt::format("{}'s data is nested unlike its shape {}: an array at depth {} has {} elements", what_,
                              to_string(tensor_.shape), level + 1, here));
    return {};
  }

  Result<void> look(Value element, std::size_t level, bool& nested) {
    simdjson::ondemand::json_type type{};
    if (const auto error = element.type().get(type); error != simdjson::SUCCESS)
      return malformed(error);
    nested = type == simdjson::ondemand::json_type::array;
    const auto innermost = level + 1 >= tensor_.shape.size();
    if (nested ? innermost : (level > 0 && !innermost))
      return fail(Errc::invalid_argument, fmt::format("{}'s data is nested {} than its shape {}", what_,
                                                      nested ? "deeper" : "less deep", to_string(tensor_.shape)));
    return {};
  }

  Result<void> append(Value element) {
    if (read_ == count_)
      return fail(Errc::invalid_argument, fmt::format("{} has more data than the {} elements of its shape {}", what_,
                                                      count_, to_string(tensor_.shape)));
    if (const auto error = store_.append(element); error != simdjson::SUCCESS)
      return mistyped(error, fmt::format("element {} of {} ({})", read_, what_, serve::to_string(tensor_.type)),
                      Store::wanted());
    ++read_;
    return {};
  }

  Failure wrong_count() const {
    return fail(Errc::invalid_argument, fmt::format("{} has {} elements of data: its shape {} says {}", what_, read_,
                                                    to_string(tensor_.shape), count_));
  }

  const NamedTensor& tensor_;
  std::string what_;
  std::uint64_t count_;
  std::uint64_t read_ = 0;
  Store store_;
};

} // namespace

Result<Bytes> read_data(Value value, const NamedTensor& tensor, std::size_t most) {
  GPUACTORS_LET(count, count_elements(input_name(tensor.name), tensor.shape));
  const auto read = [&]<class Store>(std::type_identity<Store>) {
    return DataReader<Store>{tensor, count, most}.read(value);
  };
  switch (tensor.type) {
  case DataType::boolean:
    return read(std::type_identity<Booleans>{});
  case DataType::uint8:
    return read(std::type_identity<Elements<std::uint8_t>>{});
  case DataType::uint16:
    return read(std::type_identity<Elements<std::uint16_t>>{});
  case DataType::uint32:
    return read(std::type_identity<Elements<std::uint32_t>>{});
  case DataType::uint64:
    return read(std::type_identity<Elements<std::uint64_t>>{});
  case DataType::int8:
    return read(std::type_identity<Elements<std::int8_t>>{});
  case DataType::int16:
    return read(std::type_identity<Elements<std::int16_t>>{});
  case DataType::int32:
    return read(std::type_identity<Elements<std::int32_t>>{});
  case DataType::int64:
    return read(std::type_identity<Elements<std::int64_t>>{});
  case DataType::fp32:
    return read(std::type_identity<Elements<float>>{});
  case DataType::fp64:
    return read(std::type_identity<Elements<double>>{});
  case DataType::bytes:
    return read(std::type_identity<Strings>{});
  case DataType::fp16:
  case DataType::bf16:
    break;
  }
  return fail(Errc::invalid_argument, fmt::format("{} is {}, of which JSON has no elements: send it as binary data",
                                                  input_name(tensor.name), to_string(tensor.type)));
}

} // namespace serve
