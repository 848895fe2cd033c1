// What tests/test_trf_report.sh asks of a page of trf report in a browser: this runs behind the page's own script, and
// its answers become data attributes of the page, and of the page around it if it is in a frame.
(function () {
    'use strict';
    var root = document.documentElement;
    function tell(name, value) { root.setAttribute('data-' + name, value); }

    tell('width', innerWidth);
    tell('scrolls', root.scrollWidth > innerWidth);
    tell('strangers', document.querySelectorAll('img,iframe,object,embed,textarea,base,link,form').length);
    tell('loads', performance.getEntriesByType('resource').length);

    // contrast of every text with what is behind it, curves apart: these are pictures, turned by a filter in the dark
    function numbers(colour) { return (colour.match(/[\d.]+/g) || []).map(Number); }
    function light(colour) {
        return colour.slice(0, 3).map(function (v) {
            v /= 255;
            return v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4);
        }).reduce(function (sum, v, i) { return sum + v * [0.2126, 0.7152, 0.0722][i]; }, 0);
    }
    function behind(element) {
        for (; element; element = element.parentElement) {
            var text = getComputedStyle(element).backgroundColor, colour = numbers(text);
            if (/^rgb/.test(text) && colour[3] !== 0) return colour;
        }
        return [255, 255, 255];
    }
    var least = 99, texts = 0;
    document.querySelectorAll('body *').forEach(function (element) {
        var has = Array.from(element.childNodes).some(function (n) { return n.nodeType === 3 && n.textContent.trim(); });
        if (!has || element.closest('.curve,script,[hidden]')) return;
        var style = getComputedStyle(element),
            a = light(numbers(/svg/.test(element.namespaceURI) ? style.fill : style.color)), b = light(behind(element));
        least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
        texts++;
    });
    tell('texts', texts > 50);
    tell('contrast', least >= 4.5 ? 'enough' : least.toFixed(2));
    tell('dark', light(behind(document.body)) < 0.2);

    // the choices
    function pick(name) { return document.getElementById('attend-' + name); }
    function choose(select, value) { select.value = value; select.dispatchEvent(new Event('change')); }
    function shown() { return document.querySelectorAll('.map:not([hidden])'); }
    var order = document.getElementById('order');
    if (order && !order.parentNode.hidden) {
        choose(order, 'line');
        var lines = Array.from(document.querySelectorAll('#lines>li')).map(function (li) { return +li.dataset.line; });
        tell('sorted', lines.every(function (n, i) { return !i || lines[i - 1] < n; }));
        choose(order, 'rank');
    }
    tell('maps', shown().length);
    if (pick('line') && !document.getElementById('attend').hidden) {
        var drawn = 0, empty = 0, longest = 0;
        Array.from(pick('kind').options).forEach(function (kind) {
            choose(pick('kind'), kind.value);
            Array.from(pick('layer').options).forEach(function (layer) {
                choose(pick('layer'), layer.value);
                Array.from(pick('head').options).forEach(function (head) {
                    choose(pick('head'), head.value);
                    drawn++;
                    empty += shown()[0].querySelectorAll('svg:not([hidden]) path').length === 0;
                });
            });
        });
        tell('drawn', drawn);
        tell('empty', empty);
        tell('maps', shown().length);
        choose(pick('line'), pick('line').options.length - 1);
        tell('last', shown()[0] === Array.from(document.querySelectorAll('.map')).pop());
        document.querySelectorAll('.map').forEach(function (map, i, all) {
            function tokens(m) { return m.querySelectorAll('text').length; }
            if (tokens(map) > tokens(all[longest])) longest = i;
        });
        choose(pick('line'), longest);
        choose(pick('kind'), pick('kind').options[0].value);
        choose(pick('layer'), 0);
        choose(pick('head'), 0);
        var svg = shown()[0].querySelector('svg:not([hidden])');
        svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
        tell('square', pick('value').textContent.replace(/[\u2066-\u2069]/g, ''));
        svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}));
        tell('below', pick('value').textContent.replace(/[\u2066-\u2069]/g, ''));
    }
    tell('labelled', Array.from(document.querySelectorAll('select')).every(function (s) { return s.labels.length === 1; }));
    if (parent !== window) parent.postMessage(Object.assign({}, root.dataset), '*');
})();
