#include "json.hpp"

#include "utc.hpp"

#include <ostream>

namespace gpuactors::cli {

void print_json(std::ostream& out, const Json& document) {
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json json_of(std::uint64_t number) {
  return std::to_string(number);
}

Json json_of_time(std::int64_t unix_s) {
  return unix_s == 0 ? Json() : Json(utc_for_programs(from_unix_s(unix_s)));
}

} // namespace gpuactors::cli
