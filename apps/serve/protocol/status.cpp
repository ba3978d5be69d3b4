#include <apps/serve/protocol/status.hpp>

namespace serve {

using gpuactors::Errc;

int http_status(Errc code) noexcept {
  switch (code) {
  case Errc::none:
    return 200;
  case Errc::invalid_argument:
    return 400;
  case Errc::not_found:
    return 404;
  case Errc::queue_full:
    return 429;
  case Errc::cancelled:
    return 499;
  case Errc::unsupported:
    return 501;
  case Errc::no_capacity: // a model that finds no room just now
  case Errc::unavailable:
    return 503;
  case Errc::deadline_exceeded:
    return 504;
  default:
    return 500;
  }
}

int grpc_status(Errc code) noexcept {
  switch (code) {
  case Errc::none:
    return 0;
  case Errc::cancelled:
    return 1;
  case Errc::invalid_argument:
    return 3;
  case Errc::deadline_exceeded:
    return 4;
  case Errc::not_found:
    return 5;
  case Errc::queue_full:
  case Errc::no_capacity:
    return 8;
  case Errc::unsupported:
    return 12;
  case Errc::unavailable:
    return 14;
  default:
    return 13;
  }
}

} // namespace serve
