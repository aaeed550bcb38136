#include "exports/refused.inc"
