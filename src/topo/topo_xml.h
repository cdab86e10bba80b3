#ifndef TOPO_TOPO_XML_H
#define TOPO_TOPO_XML_H

#include <libxml/tree.h>

#include "base/status.h"

/* Inside the module: the document in a text of `n` bytes; free with xmlFreeDoc. Errors: ST_INPUT as
 * path:line with the reason. */
MUST_CHECK enum status topo_xml_read(const char *path, const char *text, size_t n, xmlDoc **out);

#endif
