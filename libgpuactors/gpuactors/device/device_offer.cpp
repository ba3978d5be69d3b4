// Parses device specifications, CUDA_VISIBLE_DEVICES and product names. Pure.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/discovery.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace gpuactors {

namespace {

constexpr std::string_view spaces = " \t\r\n";

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos)
      return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end || number < 0)
    return std::nullopt;
  return number;
}

Failure bad_spec(std::string_view spec, std::string_view what) {
  return fail(Errc::invalid_argument, fmt::format("device specification \"{}\": {}; use cuda, cuda:GPU-uuid,..., "
                                                  "cuda*N or host:COUNT[xMEMORY][@TYPE] such as host:4x1GiB@V100",
                                                  spec, what));
}

Result<int> parse_count(std::string_view spec, std::string_view text) {
  const auto count = parse_number(text);
  if (!count || *count < 1 || static_cast<std::size_t>(*count) > limits::devices_per_node)
    return bad_spec(spec, fmt::format("\"{}\" is no count from 1 to {}", text, limits::devices_per_node));
  return *count;
}

bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'
           || c == '.';
  };
  return !text.empty() && text.size() <= limits::name_length && std::all_of(text.begin(), text.end(), allowed);
}

Result<DeviceOffer> parse_host(std::string_view spec, std::string_view rest) {
  DeviceOffer parsed;
  if (const auto at = rest.find('@'); at != std::string_view::npos) {
    const auto type = rest.substr(at + 1);
    if (!is_name(type))
      return bad_spec(spec, fmt::format("\"{}\" is no accelerator type (letters, digits, - _ .)", type));
    parsed.accelerator_type = type;
    rest = rest.substr(0, at);
  }
  if (const auto x = rest.find('x'); x != std::string_view::npos) {
    const auto memory = rest.substr(x + 1);
    const auto bytes = parse_bytes(memory);
    if (!bytes || *bytes == 0)
      return bad_spec(spec, fmt::format("\"{}\" is no amount of memory such as 1GiB", memory));
    // Whoever leaves the unit out means something else than bytes.
    constexpr std::uint64_t least_bytes = 4096;
    if (*bytes < least_bytes)
      return bad_spec(spec,
                      fmt::format("\"{}\" is {} of memory, and a host device has {} or more: write the unit, as 1GiB",
                                  memory, format_bytes(*bytes), format_bytes(least_bytes)));
    parsed.memory_bytes = *bytes;
    rest = rest.substr(0, x);
  }
  GPUACTORS_LET(count, parse_count(spec, rest));
  parsed.count = count;
  return parsed;
}

Result<DeviceOffer> parse_uuids(std::string_view spec, std::string_view rest) {
  DeviceOffer parsed;
  parsed.form = DeviceOffer::Form::cuda_uuids;
  for (auto uuid : split(rest, ",")) {
    if (!uuid.starts_with("GPU-") && !uuid.starts_with("MIG-"))
      return bad_spec(spec, fmt::format("\"{}\" is no UUID of the form GPU-... or MIG-...", uuid));
    if (std::find(parsed.uuids.begin(), parsed.uuids.end(), uuid) != parsed.uuids.end())
      return bad_spec(spec, fmt::format("\"{}\" is named twice", uuid));
    parsed.uuids.emplace_back(uuid);
  }
  return parsed;
}

Result<DeviceOffer> parse_spec(std::string_view spec) {
  DeviceOffer parsed;
  if (spec == "host")
    return parsed;
  if (spec.starts_with("host:"))
    return parse_host(spec, spec.substr(5));
  parsed.form = DeviceOffer::Form::cuda_all;
  if (spec == "cuda")
    return parsed;
  if (spec.starts_with("cuda:"))
    return parse_uuids(spec, spec.substr(5));
  if (spec.starts_with("cuda*")) {
    GPUACTORS_LET(count, parse_count(spec, spec.substr(5)));
    parsed.form = DeviceOffer::Form::cuda_count;
    parsed.count = count;
    return parsed;
  }
  return bad_spec(spec, "not understood");
}

} // namespace

Result<std::vector<DeviceOffer>> parse_device_specs(std::string_view text) {
  std::vector<DeviceOffer> specs;
  for (auto part : split(text, spaces)) {
    if (part.empty())
      continue;
    GPUACTORS_LET(spec, parse_spec(part));
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<DeviceInfo> limit_to_visible(const std::vector<DeviceInfo>& all,
                                         const std::optional<std::string>& visible_devices) {
  if (!visible_devices)
    return all;
  std::vector<DeviceInfo> shown;
  for (auto part : split(*visible_devices, ",")) {
    const auto entry = trim(part);
    const DeviceInfo* found = nullptr;
    if (const auto number = parse_number(entry)) {
      if (static_cast<std::size_t>(*number) < all.size())
        found = &all[static_cast<std::size_t>(*number)];
    } else if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) {
      const auto named = [entry](const DeviceInfo& device) { return device.uuid.starts_with(entry); };
      if (std::count_if(all.begin(), all.end(), named) == 1)
        found = &*std::find_if(all.begin(), all.end(), named);
    }
    if (found == nullptr)
      return shown;
    // A device that is named twice makes the whole value invalid for the driver, which then shows no device.
    for (const auto& device : shown) {
      if (device.index == found->index)
        return {};
    }
    shown.push_back(*found);
    shown.back().ordinal = static_cast<int>(shown.size()) - 1;
  }
  return shown;
}

std::uint64_t leasable_memory(std::uint64_t total_bytes) noexcept {
  constexpr std::uint64_t least_reserve = std::uint64_t{512} << 20;
  constexpr std::uint64_t reserve_part = 64;
  return total_bytes - std::min(total_bytes, std::max(least_reserve, total_bytes / reserve_part));
}

std::string accelerator_type_of(std::string_view device_name) {
  std::vector<std::string_view> words;
  for (auto word : split(device_name, " -")) {
    if (!word.empty() && word != "NVIDIA" && word != "Tesla" && word != "GeForce" && word != "Graphics"
        && word != "Device")
      words.push_back(word);
  }
  if (words.empty())
    return "cuda";
  // These product lines need all words, because the first alone says little: "RTX-4090".
  if ((words[0] == "RTX" || words[0] == "GTX" || words[0] == "Quadro" || words[0] == "TITAN") && words.size() > 1)
    return fmt::format("{}", fmt::join(words, "-"));
  std::string type{words[0]};
  const auto is_size = [](std::string_view word) {
    return word.size() > 2 && word.ends_with("GB") && parse_number(word.substr(0, word.size() - 2)).has_value();
  };
  // Users name the A100 by its size, too, and others, which also come in several, without.
  const auto size = std::find_if(words.begin(), words.end(), is_size);
  if (type == "A100" && size != words.end())
    type += fmt::format("-{}", *size);
  if (const auto mig = std::find(words.begin(), words.end(), "MIG"); mig != words.end())
    type += fmt::format("-{}", fmt::join(mig, words.end(), "-"));
  return type;
}

} // namespace gpuactors
