#include "json.hpp"

#include <ostream>

namespace gpuactors::cli {

void print_json(std::ostream& out, const Json& document) {
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json json_of(std::uint64_t number) {
  return std::to_string(number);
}

} // namespace gpuactors::cli
