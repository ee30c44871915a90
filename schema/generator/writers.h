// The text of the files that are made from the schema.
#pragma once

#include <string>

#include "schema/generator/schema_model.h"

namespace roost::generator {

std::string WriteValues(const Model& model);   // messages.h: constants, enums and structs with the schema's comments
std::string WriteEncoder(const Model& model);  // encode.cc
std::string WriteDecoder(const Model& model);  // decode.cc
std::string WriteRandom(const Model& model);   // random_messages.h

// The first lines of each file.
std::string Head(const char* what);
// A bound as a literal of the field's type: "64U", "0.01F".
std::string Literal(double value, const Type& type);
// "WANT_HELLO" for "wantHello": Cap'n Proto's names of alternatives.
std::string AlternativeName(const Field& field);
// The alternatives of a union of whole messages without `none`, which is never sent.
std::vector<const Field*> Alternatives(const Struct& message);
// The type of an alternative; a struct without members where the schema has Void.
std::string AlternativeType(const Field& field);
// The parameter of Read and Write that stands for a value of this struct.
std::string TargetType(const Struct& structure);

}  // namespace roost::generator
