// The parts of Protobuf that the layers above use: messages, their descriptors, and the empty message.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/message.h>
