#include "support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>

namespace gpuactors::builtin {

namespace {

constexpr auto most_bytes = std::numeric_limits<std::int64_t>::max();

} // namespace

Result<std::int64_t> check_order(std::int64_t n, std::size_t element_bytes) {
  const auto most =
      static_cast<std::int64_t>(std::sqrt(static_cast<double>(most_bytes) / static_cast<double>(element_bytes)));
  if (n < 1 || n > most)
    return fail(Errc::invalid_argument,
                fmt::format("n is {}: rows and columns of a matrix, 1 to {}, are expected", n, most));
  return n;
}

Result<std::size_t> check_count(std::string_view field, std::int64_t count, std::size_t unit_bytes) {
  const auto most = most_bytes / static_cast<std::int64_t>(unit_bytes);
  if (count < 1 || count > most)
    return fail(Errc::invalid_argument, fmt::format("{} is {}: 1 to {} are expected", field, count, most));
  return static_cast<std::size_t>(count);
}

Result<void> check_device(std::string_view what, std::size_t gpus) {
  if (gpus == 0)
    return fail(Errc::invalid_argument,
                fmt::format("{} computes on a device and was given none: ask for one, whole (gpus 1), in part (gpus "
                            "0.5) or by its memory",
                            what));
  return {};
}

Result<v1::Said> say(const v1::Say& in) {
  if (in.lines() < 0)
    return fail(Errc::invalid_argument, fmt::format("lines is {}: 0 or more are expected", in.lines()));
  const auto lines = std::max<std::int64_t>(in.lines(), 1);
  for (std::int64_t i = 1; i <= lines; ++i) {
    const auto text = lines == 1 ? in.text() : fmt::format("{} {}", in.text(), i);
    if (in.to().empty() || in.to() == "stdout")
      std::cout << text << '\n';
    else if (in.to() == "stderr")
      std::cerr << text << '\n';
    else if (in.to() == "printf")
      std::printf("%s\n", text.c_str());
    else
      return fail(Errc::invalid_argument, fmt::format("to is \"{}\": stdout, stderr or printf is expected", in.to()));
  }
  v1::Said out;
  out.set_lines(lines);
  return out;
}

v1::DeviceShare describe(const LeaseInfo& lease, Context& gpu, std::size_t i) {
  const auto& info = gpu.device();
  const auto& granted = lease.devices[i];
  v1::DeviceShare result;
  result.set_index(granted.index);
  result.set_share(granted.share.to_double());
  result.set_memory_bytes(gpu.memory_limit());
  result.set_kind(std::string{to_string(info.kind)});
  result.set_name(info.name);
  result.set_accelerator_type(info.accelerator_type);
  return result;
}

} // namespace gpuactors::builtin
