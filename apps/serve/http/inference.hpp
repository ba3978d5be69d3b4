// One inference over HTTP, from the body of the request to the answer.
#pragma once

#include <apps/serve/http/api.hpp>

#include <memory>

namespace serve {

/// Reads the body, has the model asked, and writes the answer; what takes long happens on the threads of
/// `FrontState::heavy`. Any thread.
/// @param trace What its work is a part of.
/// @returns the handle by which it is given up.
std::shared_ptr<Service::Ticket> infer_over_http(const std::shared_ptr<FrontState>& state, const HttpHead& head,
                                                 const gpuactors::TraceContext& trace, Route route, Bytes body,
                                                 HttpApi::Done done);

} // namespace serve
